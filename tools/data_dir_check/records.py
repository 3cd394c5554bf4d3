"""A log's records in the words of the description: as they lie in its segments, and as a consumer gets them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from cordwood.cli.dump.describe import describe_record
from cordwood.log.log import Log
from cordwood.log.storage import batches
from cordwood.runtime.disk import FileRange
from cordwood.wire.control import parse_end_txn_marker
from cordwood.wire.records import BatchHeader, Record, batch_headers, decode_batch

Described: TypeAlias = dict[str, Any]


def described_records(log: Log, topic: str) -> Iterator[Described]:
    """Every record in the segments, also before the log's start, with what became of its transaction."""
    aborted = log.aborted_txns_between(0, log.end_offset)
    for segment in log.segments:
        for _, header, data in batches.whole_batches(segment.file, 0, segment.size):
            for record in decode_batch(data):
                described = describe_record(record, topic, is_control=header.is_control)
                if header.is_transactional and not header.is_control:
                    described["txn"] = _txn_state(log, aborted, header.producer_id, record.offset)
                    described["producerId"] = header.producer_id
                yield described


def _txn_state(log: Log, aborted: list[Any], producer_id: int, offset: int) -> str:
    if any(txn.producer_id == producer_id and txn.first_offset <= offset <= txn.last_offset for txn in aborted):
        return "aborted"
    producer = log.producers.by_id.get(producer_id)
    is_open = producer is not None and 0 <= producer.txn_first_offset <= offset
    return "open" if is_open else "committed"


def consumed_runs(log: Log, *, committed: bool, max_bytes: int) -> tuple[int, list[list[int]]]:
    """Where a consumer that reads to the end arrives, and the offsets that it gets, as [first, last] runs."""
    runs: list[list[int]] = []
    end = log.last_stable_offset if committed else log.high_watermark
    position = log.start_offset
    while position < end:
        read = log.read(position, max_bytes, end)
        if read is None:
            break
        for header, records in _fetched(log, read, position, committed=committed):
            for record in records:
                if record.offset >= position:
                    _add(runs, record.offset)
            position = max(position, header.next_offset)
    return end, runs


def _fetched(
    log: Log, read: FileRange, fetch_offset: int, *, committed: bool
) -> Iterator[tuple[BatchHeader, list[Record]]]:
    """A consumer's view of a fetch: no control records, and optionally no aborted ones."""
    data = read.read()
    aborted = log.aborted_txns(read, fetch_offset) if committed else []
    aborting: set[int] = set()
    for at, header in batch_headers(data):
        while aborted and aborted[0].first_offset <= header.last_offset:
            aborting.add(aborted.pop(0).producer_id)
        records = decode_batch(data, at)
        if header.is_control:
            if records and header.has_producer_id and not parse_end_txn_marker(records[0].key, records[0].value).commit:
                aborting.discard(header.producer_id)
            yield header, []
        elif header.is_transactional and header.producer_id in aborting:
            yield header, []
        else:
            yield header, records


def _add(runs: list[list[int]], offset: int) -> None:
    if runs and runs[-1][1] == offset - 1:
        runs[-1][1] = offset
    else:
        runs.append([offset, offset])
