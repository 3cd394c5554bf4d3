"""The transactions of a log during compaction: some of their data or markers may already be gone."""

from collections.abc import Iterable
from typing import NamedTuple

from cordwood.log.storage.index import AbortedTxn
from cordwood.wire.batch_header import BatchHeader
from cordwood.wire.control import EndTxnMarker


class EndedTxn(NamedTuple):
    """A transaction that a marker ends: either none of its data is left, or some data of an aborted one is."""

    is_empty: bool
    aborted: AbortedTxn | None = None


class Transactions:
    """Tracks transactions through a partly compacted log.

    Must see every batch and every marker, in log order.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        # Sorted so that the next one to begin is last.
        self._to_come = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        # By producer: transactions open at the current position that will be aborted.
        self._aborted: dict[int, AbortedTxn] = {}
        # Producers with a transaction open at the current position that has data.
        self._with_data: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        self._with_data.add(header.producer_id)
        txn = self._aborted.get(header.producer_id)
        return txn is not None and header.last_offset < txn.last_offset

    def on_marker(self, header: BatchHeader, marker: EndTxnMarker | None) -> EndedTxn:
        self._begin_up_to(header.last_offset)
        if marker is None:
            # Emptied earlier together with its transaction; or not part of a transaction.
            return EndedTxn(is_empty=False)
        has_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        aborted = self._aborted.pop(header.producer_id, None)
        return EndedTxn(not has_data, aborted if has_data and not marker.commit else None)

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            txn = self._to_come.pop()
            self._aborted[txn.producer_id] = txn
