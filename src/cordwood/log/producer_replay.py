"""Producer state as of an offset: the last snapshot that is not past it, and the batches since."""

from . import batches
from .markers import end_txn_of
from .producers import Producers
from .segments import Segments
from .snapshots import ProducerSnapshots


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
    """Producer state as of `end_offset`: the last snapshot that is not past it, and the batches since."""
    for offset in list(snapshots.offsets):
        # What lies before the log's start says nothing of its records; the state at the very end is good all the same.
        if offset > end_offset or (offset <= start_offset and offset != end_offset):
            snapshots.remove(offset)
    if clean and snapshots.latest is None:
        # A clean stop leaves a snapshot wherever there is a producer.
        return Producers(expiration_ms, end_offset)
    loaded = snapshots.load_latest()
    if loaded is None:
        producers = Producers(expiration_ms, start_offset)
    else:
        producers = Producers(expiration_ms, loaded[0], loaded[1])
        producers.expire(now_ms)
    for segment in segments.from_floor(producers.end_offset) if len(segments) else []:
        if segment.base_offset >= end_offset:
            break
        start = segment.locate(producers.end_offset)
        if start is None:
            continue
        for _, header, data in batches.whole_batches(segment.file, start[0], segment.size):
            if header.base_offset >= end_offset:
                break
            if header.magic >= 2 and header.has_producer_id:
                producers.apply(header, end_txn_of(data, header))
    producers.end_offset = end_offset
    return producers
