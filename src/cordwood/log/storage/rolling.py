"""Decides when the active segment is full: by size, record timestamps, indexes or offsets."""

from cordwood.log.config import LogConfig

from .segment import Segment

# Earlier than any record: a segment whose first batch has no timestamp is checked each time.
_NEVER = -2


def should_roll(
    segment: Segment, config: LogConfig, more_bytes: int, max_timestamp: int, last_offset: int, now_ms: int
) -> bool:
    """Returns whether batches of this many bytes must start a new segment."""
    size = segment.size
    if size > config.segment_bytes - more_bytes:
        return True
    if size > 0:
        # As in Kafka, based on the records' timestamps if they have any, so that a replica rolls where its leader did.
        first_timestamp = segment.first_timestamp()
        waited_ms = max_timestamp - first_timestamp if first_timestamp >= 0 else now_ms - segment.created_ms
        if waited_ms > config.roll_ms - segment.roll_jitter_ms:
            return True
    return segment.index_room(config.segment_index_bytes) == 0 or not segment.accepts_offset(last_offset)


class Room:
    """Limits within which batches do not fill the segment, so that many appends share one call of `should_roll` (1.1
    µs).

    Available once the segment has a batch with a timestamp, and valid until the log is truncated.
    """

    __slots__ = ("bytes", "config", "offset", "segment", "timestamp")

    def __init__(self, segment: Segment, config: LogConfig) -> None:
        self.segment = segment
        self.config = config
        # Indexes get an entry per interval of bytes, the next one at any time: they are not full before this many
        # bytes.
        entries = max(segment.index_room(config.segment_index_bytes) - 1, 0)
        self.bytes = min(config.segment_bytes, segment.size + entries * segment.place.index_interval_bytes)
        first_timestamp = segment.first_timestamp()
        self.timestamp = first_timestamp + config.roll_ms - segment.roll_jitter_ms if first_timestamp >= 0 else _NEVER
        self.offset = segment.last_acceptable_offset
