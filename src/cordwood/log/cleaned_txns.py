"""The transactions of a log as compaction meets them: some of their data, or their markers, may be gone already."""

from collections.abc import Iterable
from typing import NamedTuple

from cordwood.wire.batch_header import BatchHeader
from cordwood.wire.control import EndTxnMarker

from .index import AbortedTxn


class EndedTxn(NamedTuple):
    """What a marker means to compaction: none of its transaction's data is left, or there is some of an aborted one."""

    is_empty: bool
    aborted: AbortedTxn | None = None


class Transactions:
    """Follows the transactions through a log of which parts were compacted before.

    Every batch and every marker has to be shown to it, in the order of the log.
    """

    def __init__(self, aborted: Iterable[AbortedTxn]) -> None:
        # The next one to begin is the last.
        self._to_come = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        # By producer: those that are open where we are and will be aborted.
        self._aborted: dict[int, AbortedTxn] = {}
        # Producers with a transaction open where we are, of which there is data.
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
            # Emptied before, when its transaction had been; or no transaction's.
            return EndedTxn(is_empty=False)
        has_data = header.producer_id in self._with_data
        self._with_data.discard(header.producer_id)
        aborted = self._aborted.pop(header.producer_id, None)
        return EndedTxn(not has_data, aborted if has_data and not marker.commit else None)

    def _begin_up_to(self, offset: int) -> None:
        while self._to_come and self._to_come[-1].first_offset <= offset:
            txn = self._to_come.pop()
            self._aborted[txn.producer_id] = txn
