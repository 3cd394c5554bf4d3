"""The effects of decisions of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from .transaction import TopicPartition


class WriteMarkers(NamedTuple):
    """The outcome of a transaction is committed: write its markers into these partitions, then complete it."""

    transactional_id: str
    partitions: Collection[TopicPartition]
    # At once, or after the responses that are due in this turn of the event loop.
    is_urgent: bool = True
