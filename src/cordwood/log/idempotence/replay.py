"""Rebuilds producer state at an offset: the last snapshot at or before it, and the batches since."""

import logging

from cordwood.log.storage import batches
from cordwood.log.storage.segment import Segment
from cordwood.log.storage.segments import Segments
from cordwood.runtime.disk import Buffer
from cordwood.wire.batch_header import BatchHeader
from cordwood.wire.control import EndTxnMarker
from cordwood.wire.record import CorruptBatch

from .markers import end_txn_of
from .producers import Producers
from .snapshots import ProducerSnapshots

logger = logging.getLogger(__name__)


def load_producers(
    segments: Segments,
    snapshots: ProducerSnapshots,
    expiration_ms: int,
    *,
    start_offset: int,
    end_offset: int,
    now_ms: int,
    clean: bool = False,
) -> Producers:
    """Loads the producer state at `end_offset`, which need not be the end of the log."""
    if clean and not snapshots.offsets:
        # A clean shutdown leaves a snapshot if there are any producers.
        return Producers(expiration_ms, end_offset)
    loaded = snapshots.load_latest(start_offset, end_offset)
    if loaded is None:
        producers = Producers(expiration_ms, start_offset)
    else:
        producers = Producers(expiration_ms, loaded[0], loaded[1])
        producers.expire(now_ms)
    for segment in segments.from_floor(producers.end_offset) if len(segments) else []:
        if segment.base_offset >= end_offset:
            break
        try:
            _replay_segment(segment, producers, end_offset)
        except CorruptBatch as error:
            # Flushed data is damaged; the log opens anyway, and readers of these batches get an error.
            logger.error("%s is damaged; producer state after the damage is unknown: %s", segment, error)
    producers.end_offset = end_offset
    return producers


def _replay_segment(segment: Segment, producers: Producers, end_offset: int) -> None:
    start = segment.locate(producers.end_offset)
    if start is None:
        return
    for _, header, data in batches.whole_batches(segment.file, start[0], segment.size):
        if header.base_offset >= end_offset:
            break
        if header.has_producer_id:
            producers.apply(header, end_txn_of(data, header))


def rebuild_txn_index(segment: Segment, producers: Producers) -> None:
    """Rebuilds a segment's index of aborted transactions; `producers` are as of its start."""
    aborted = []
    for _, header, data in batches.whole_batches(segment.file, 0, segment.size):
        if header.has_producer_id:
            completed = producers.apply(header, end_txn_of(data, header))
            if completed is not None and completed.is_aborted:
                aborted.append((completed, producers.last_stable_offset_after(completed)))
    segment.txn_index.clear()
    for completed, stable in aborted:
        segment.note_aborted(completed, stable)
    segment.txn_index.seal()


def replay(producers: Producers, segment: Segment, header: BatchHeader, data: Buffer) -> None:
    """Applies a batch of the segment."""
    if header.has_producer_id:
        note_batch(producers, segment, header, end_txn_of(data, header))


def note_batch(producers: Producers, segment: Segment, header: BatchHeader, marker: EndTxnMarker | None) -> None:
    """Applies a producer's batch; records a transaction that it aborts in the segment's index."""
    completed = producers.apply(header, marker)
    if completed is not None and completed.is_aborted:
        segment.note_aborted(completed, producers.last_stable_offset_after(completed))
