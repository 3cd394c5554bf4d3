"""One module per format of vectors; each compares what our code says with what Kafka's said."""

from __future__ import annotations


class Mismatch(Exception):
    """A case that our code answers differently from Kafka; the text says how."""
