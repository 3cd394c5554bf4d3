"""The effects of decisions of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from .transaction import TopicPartition


class WriteMarkers(NamedTuple):
    """The outcome of a transaction is committed: write its markers to these partitions, then complete it."""

    transactional_id: str
    partitions: Collection[TopicPartition]
    # True: at once; False: after the responses of this turn of the event loop.
    is_urgent: bool = True
