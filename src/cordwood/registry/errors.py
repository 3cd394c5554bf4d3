"""Errors that keep a registry from starting."""

from __future__ import annotations


class UnusableTopic(Exception):
    """The schemas topic would lose schemas, or does not keep them in order; the text says how to repair it."""
