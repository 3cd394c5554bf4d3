"""The checks of `--verify`: a segment's offsets increase, and its indexes match it.

Indexes are sorted like the log, so each is read alongside it, entry by entry.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cordwood.log.storage.index import AbortedTxn
from cordwood.wire.control import parse_end_txn_marker
from cordwood.wire.records import InvalidRecord

from .index import OffsetEntry, TimeEntry
from .segment import Batch

T = TypeVar("T")


@dataclass(slots=True)
class Totals:
    batches: int = 0
    records: int = 0
    problems: int = 0


class SegmentCheck:
    """Takes the batches in order and yields the problems that it finds; `finish` yields those about missing entries."""

    def __init__(
        self,
        base_offset: int,
        totals: Totals,
        offsets: Iterable[OffsetEntry] = (),
        times: Iterable[TimeEntry] = (),
        txns: Iterable[AbortedTxn] = (),
        *,
        all_txns: bool = False,
    ) -> None:
        self.next_offset = base_offset
        self._totals = totals
        self._checks = (OffsetIndexCheck(offsets), TimeIndexCheck(times), TxnIndexCheck(txns, all_txns))

    def observe(self, batch: Batch) -> Iterator[dict[str, Any]]:
        self._totals.batches += 1
        self._totals.records += len(batch.records) if batch.records is not None else max(batch.header.count, 0)
        if batch.first_offset < self.next_offset:
            yield _problem(batch.position, f"offset {batch.first_offset} does not follow {self.next_offset - 1}")
        if batch.records is not None and batch.header.magic >= 2:
            yield from _check_records(batch)
        for check in self._checks:
            yield from check.observe(batch)
        self.next_offset = batch.header.next_offset

    def finish(self) -> Iterator[dict[str, Any]]:
        for check in self._checks:
            yield from check.finish()


def _check_records(batch: Batch) -> Iterator[dict[str, Any]]:
    header, previous = batch.header, batch.header.base_offset - 1
    youngest = -1
    for record in batch.records or ():
        if not previous < record.offset <= header.last_offset:
            yield _problem(
                batch.position,
                f"record {record.offset} follows {previous} in a batch that ends at {header.last_offset}",
            )
        previous = record.offset
        youngest = max(youngest, record.timestamp)
    if batch.records and youngest != header.max_timestamp:
        yield _problem(
            batch.position,
            f"the batch's maximum timestamp is {header.max_timestamp}, but its latest record's is {youngest}",
        )


class Cursor(Generic[T]):
    """An iterator with a peek."""

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self.current = next(self._items, None)

    def advance(self) -> None:
        self.current = next(self._items, None)


class OffsetIndexCheck:
    """Checks that an entry's position is where a batch begins, and its offset the last one of that batch.

    Before magic 2 one entry covered all messages of an append, with the last one's offset.
    """

    def __init__(self, entries: Iterable[OffsetEntry]) -> None:
        self._cursor = Cursor(entries)

    def observe(self, batch: Batch) -> Iterator[dict[str, Any]]:
        while (entry := self._cursor.current) is not None and entry.position <= batch.position:
            last_offset = batch.header.last_offset
            if entry.position < batch.position:
                yield _problem(entry.position, f"{_shown(entry)}: no batch begins there")
            elif entry.offset != last_offset and not (batch.header.magic < 2 and entry.offset > last_offset):
                yield _problem(entry.position, f"{_shown(entry)}: the batch there ends at offset {last_offset}")
            self._cursor.advance()

    def finish(self) -> Iterator[dict[str, Any]]:
        while (entry := self._cursor.current) is not None:
            yield _problem(entry.position, f"{_shown(entry)}: no batch begins there")
            self._cursor.advance()


class TimeIndexCheck:
    """Checks that an entry has the maximum timestamp of the batch that holds its offset, and that no earlier batch is
    younger."""

    def __init__(self, entries: Iterable[TimeEntry]) -> None:
        self._cursor = Cursor(entries)
        self._youngest = -1

    def observe(self, batch: Batch) -> Iterator[dict[str, Any]]:
        header = batch.header
        self._youngest = max(self._youngest, header.max_timestamp)
        while (entry := self._cursor.current) is not None and entry.offset <= header.last_offset:
            if entry.offset < batch.first_offset:
                yield _problem(batch.position, f"{_shown(entry)}: no batch holds this offset")
            elif entry.timestamp != header.max_timestamp:
                yield _problem(
                    batch.position, f"{_shown(entry)}: that batch's maximum timestamp is {header.max_timestamp}"
                )
            elif entry.timestamp < self._youngest:
                yield _problem(batch.position, f"{_shown(entry)}: {self._youngest} precedes it")
            self._cursor.advance()

    def finish(self) -> Iterator[dict[str, Any]]:
        while (entry := self._cursor.current) is not None:
            yield _problem(None, f"{_shown(entry)}: no batch holds this offset")
            self._cursor.advance()


class TxnIndexCheck:
    """Checks that an entry's last offset is that of the abort marker, and that its range in this segment is the
    transaction's. If the index `is_complete`, each abort marker must have an entry."""

    def __init__(self, entries: Iterable[AbortedTxn], is_complete: bool) -> None:
        self._is_complete = is_complete
        self._cursor = Cursor(entries)
        # Producer id -> first data of its open transaction in this segment.
        self._open: dict[int, int] = {}

    def observe(self, batch: Batch) -> Iterator[dict[str, Any]]:
        header = batch.header
        while (entry := self._cursor.current) is not None and entry.last_offset < header.base_offset:
            yield _problem(batch.position, f"{_shown(entry)}: no marker is there")
            self._cursor.advance()
        if not header.is_transactional:
            return
        if not header.is_control:
            self._open.setdefault(header.producer_id, header.base_offset)
            return
        first_data = self._open.pop(header.producer_id, None)
        if not _is_abort(batch):
            return
        if entry is not None and entry.last_offset == header.last_offset:
            self._cursor.advance()
            if entry.producer_id != header.producer_id:
                yield _problem(batch.position, f"{_shown(entry)}: the marker is of producer {header.producer_id}")
            elif first_data is not None and first_data < entry.first_offset:
                yield _problem(batch.position, f"{_shown(entry)}: the transaction has data at offset {first_data}")
        elif first_data is not None and self._is_complete:
            yield _problem(
                batch.position,
                f"the abort of producer {header.producer_id} at offset {header.last_offset} is not in the "
                "transaction index",
            )

    def finish(self) -> Iterator[dict[str, Any]]:
        while (entry := self._cursor.current) is not None:
            yield _problem(None, f"{_shown(entry)}: no marker is there")
            self._cursor.advance()


def _is_abort(batch: Batch) -> bool:
    try:
        return bool(batch.records) and not any(
            parse_end_txn_marker(record.key, record.value).commit for record in batch.records or ()
        )
    except InvalidRecord:
        return False


def _problem(position: int | None, reason: str) -> dict[str, Any]:
    described: dict[str, Any] = {"type": "problem", "reason": reason}
    return described if position is None else {"type": "problem", "position": position, "reason": reason}


_NAMES = {OffsetEntry: "offset index", TimeEntry: "time index", AbortedTxn: "transaction index"}


def _shown(entry: OffsetEntry | TimeEntry | AbortedTxn) -> str:
    fields = ", ".join(f"{name} {value}" for name, value in zip(entry._fields, entry, strict=True))
    return f"{_NAMES[type(entry)]} entry ({fields})"
