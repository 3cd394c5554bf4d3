"""Deleting old segments: by age, by size, and what lies before the log's start."""

from collections.abc import Callable

from .log import Log
from .segment import Segment


def apply_retention(log: Log, now_ms: int) -> int:
    """Deletes what the topic's configuration lets go; how many segments.

    A topic that is only compacted keeps all from its start on.
    """
    deleted = _delete(
        log, now_ms, "it lies before the log's start", lambda _, end_offset: end_offset <= log.start_offset
    )
    if log.config.delete:
        deleted += _delete_by_size(log, now_ms) + _delete_by_age(log, now_ms)
    return deleted


def _delete_by_size(log: Log, now_ms: int) -> int:
    limit = log.config.retention_bytes
    if limit < 0 or (excess := log.size - limit) <= 0:
        return 0

    def is_excess(segment: Segment, _end_offset: int) -> bool:
        nonlocal excess
        # The log never shrinks below the limit.
        if segment.size > excess:
            return False
        excess -= segment.size
        return True

    return _delete(log, now_ms, f"retention.bytes={limit}", is_excess)


def _delete_by_age(log: Log, now_ms: int) -> int:
    limit = log.config.retention_ms
    if limit < 0:
        return 0
    return _delete(log, now_ms, f"retention.ms={limit}", lambda segment, _: now_ms - segment.largest_timestamp > limit)


def _delete(log: Log, now_ms: int, reason: str, is_deletable: Callable[[Segment, int], bool]) -> int:
    """Deletes segments from the head on while they may go. Nothing goes that is not replicated yet."""
    deletable: list[Segment] = []
    for segment in log.segments:
        following = log.segments.after(segment)
        end_offset = log.end_offset if following is None else following.base_offset
        is_empty_end = following is None and segment.size == 0
        if is_empty_end or log.high_watermark < end_offset or not is_deletable(segment, end_offset):
            break
        deletable.append(segment)
    log.delete_segments(deletable, now_ms, reason)
    return len(deletable)
