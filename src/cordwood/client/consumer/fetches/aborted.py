"""Finds the batches of aborted transactions while iterating over fetched data."""

from collections.abc import Iterable

from cordwood.wire.control import ControlType, parse_control_type
from cordwood.wire.messages.fetch import AbortedTransaction
from cordwood.wire.records import BatchHeader, Buffer, decode_batch


class Aborted:
    """Must see each batch, data and control, in offset order."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._coming = sorted(transactions, key=lambda aborted: -aborted.first_offset)
        self._producers: set[int] = set()

    def covers(self, header: BatchHeader, content: Buffer, place: int) -> bool:
        """True if the batch is aborted data. A marker ends its producer's transaction."""
        while self._coming and self._coming[-1].first_offset <= header.last_offset:
            self._producers.add(self._coming.pop().producer_id)
        if header.is_control:
            marker = decode_batch(content, place)
            if marker and parse_control_type(marker[0].key) is ControlType.ABORT:
                self._producers.discard(header.producer_id)
            return False
        return header.is_transactional and header.producer_id in self._producers
