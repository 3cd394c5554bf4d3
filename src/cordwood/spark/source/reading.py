"""A task's work: a range of offsets becomes Arrow's arrays of records, some ten thousand at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from cordwood.client.consumer.fetches.aborted import Aborted
from cordwood.spark.errors import CannotRead
from cordwood.spark.source.link import link_to
from cordwood.spark.source.loss import LossReport
from cordwood.spark.source.options import SourceOptions
from cordwood.spark.source.range_fetcher import FetchLimits, RangeFetcher
from cordwood.spark.source.range_position import Fetched
from cordwood.spark.source.ranges import OffsetRange
from cordwood.spark.worker_garbage import spare_modules
from cordwood.wire.arrow import to_arrow
from cordwood.wire.record import CorruptBatch, InvalidRecord
from cordwood.wire.records import batch_headers

_MAX_ROWS = 50_000
_EXPANSION = 4
"""Expected growth of compressed records."""


@dataclass(frozen=True, slots=True)
class Records:
    columns: Any
    """A RecordBatch of pyarrow: offset, timestamp in ms, key, value, perhaps headers."""
    timestamp_type: int
    """0: the time that the producer gave; 1: when the broker appended it."""


def read_range(options: SourceOptions, wanted: OffsetRange, *, headers: bool) -> Iterator[Records]:
    """All of it, in the order of offsets. Raises a `ClientError`, or a `SparkError`."""
    link = link_to(options.client, patient=True)
    limits = FetchLimits(
        options.max_bytes_per_batch, options.read_committed, options.poll_timeout_ms, link.settings.client_rack
    )
    losses = LossReport(fails=options.fail_on_data_loss)
    fetcher = RangeFetcher(link.client, wanted, limits, losses, link.sizes)
    try:
        while link.run(fetcher.advance()):
            for piece in _pieces(fetcher.take(), wanted.end, options):
                records = _decode(piece, wanted, headers)
                if records.num_rows:
                    yield Records(records, piece.timestamp_type)
    finally:
        link.run(fetcher.close())
        spare_modules()


@dataclass(frozen=True, slots=True)
class _Piece:
    """Batches that are decoded together."""

    content: memoryview
    position: int
    """The first offset to keep."""
    skipped: frozenset[int]
    """Base offsets of batches that were aborted."""
    timestamp_type: int


def _pieces(fetched: Fetched, range_end: int, options: SourceOptions) -> Iterator[_Piece]:
    """Groups batches so that a group has neither too many rows nor, decompressed, too many bytes."""
    content = memoryview(fetched.content)
    aborted = Aborted(fetched.aborted) if options.read_committed else None
    begin = end = rows = size = timestamp_type = 0
    skipped: set[int] = set()
    for place, header in batch_headers(content):
        if header.base_offset >= range_end:
            break
        batch_rows = max(header.count, 0)
        batch_size = header.size * (_EXPANSION if header.is_compressed else 1)
        is_other = header.is_log_append_time != bool(timestamp_type)
        is_full = rows + batch_rows > _MAX_ROWS or size + batch_size > options.max_bytes_per_batch
        if end > begin and (is_other or is_full):
            yield _Piece(content[begin:end], fetched.position, frozenset(skipped), timestamp_type)
            begin, rows, size, skipped = place, 0, 0, set()
        timestamp_type = int(header.is_log_append_time)
        if aborted is not None and aborted.covers(header, content, place):
            skipped.add(header.base_offset)
        end, rows, size = place + header.size, rows + batch_rows, size + batch_size
    if end > begin:
        yield _Piece(content[begin:end], fetched.position, frozenset(skipped), timestamp_type)


def _decode(piece: _Piece, wanted: OffsetRange, headers: bool) -> Any:
    """The records of the range: batches may begin before it and end after it."""
    try:
        records = to_arrow(
            piece.content, start_offset=piece.position, headers=headers, check_crcs=True, skipped=piece.skipped
        )
    except (CorruptBatch, InvalidRecord) as error:
        raise CannotRead(f"{wanted.partition} from offset {piece.position} on: {error}") from None
    if records.num_rows and records.column("offset")[-1].as_py() >= wanted.end:
        offsets = records.column("offset").to_numpy()
        records = records.slice(0, int(offsets.searchsorted(wanted.end)))
    return records
