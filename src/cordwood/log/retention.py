"""Deletes old segments: by age, by size, and below the log start offset."""

from collections.abc import Callable

from cordwood.log.storage.segment import Segment

from .log import Log
from .steps import Steps, do_all

# Deleting a segment renames its files, sometimes with a roll before; checking one may read its time index.
_SEGMENTS_AT_ONCE = 8
_DELETION_STEPS = 8
_LOOK_STEPS = 1


def apply_retention(log: Log, now_ms: int) -> int:
    """Deletes segments according to the topic's configuration; returns their number."""
    return do_all(applying_retention(log, now_ms))


def applying_retention(log: Log, now_ms: int) -> Steps[int]:
    """A topic that is only compacted keeps everything from its start on.

    No other code may remove segments between the steps; discarding the log ends them.
    """
    deleted = yield from _deleting(
        log, now_ms, "it is below the log start offset", lambda _, end_offset: end_offset <= log.start_offset
    )
    if log.config.delete:
        deleted += yield from _deleting_by_size(log, now_ms)
        deleted += yield from _deleting_by_age(log, now_ms)
    return deleted


def _deleting_by_size(log: Log, now_ms: int) -> Steps[int]:
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

    return (yield from _deleting(log, now_ms, f"retention.bytes={limit}", is_excess))


def _deleting_by_age(log: Log, now_ms: int) -> Steps[int]:
    limit = log.config.retention_ms
    if limit < 0:
        return 0

    def is_old(segment: Segment, _end_offset: int) -> bool:
        # The time index alone is not enough to delete: a single damaged entry would suffice.
        return now_ms - segment.largest_timestamp > limit and now_ms - segment.last_timestamp() > limit

    return (yield from _deleting(log, now_ms, f"retention.ms={limit}", is_old))


def _deleting(log: Log, now_ms: int, reason: str, is_deletable: Callable[[Segment, int], bool]) -> Steps[int]:
    """Deletes segments from the head on as long as they qualify."""
    deleted = 0
    while segments := _deletable(log, is_deletable):
        log.delete_segments(segments, now_ms, reason)
        deleted += len(segments)
        yield len(segments) * _DELETION_STEPS
        if len(segments) < _SEGMENTS_AT_ONCE:
            break
    else:
        yield _LOOK_STEPS
    return deleted


def _deletable(log: Log, is_deletable: Callable[[Segment, int], bool]) -> list[Segment]:
    """The first few deletable segments. Unreplicated records are never deleted."""
    found: list[Segment] = []
    for segment in log.segments:
        following = log.segments.after(segment)
        end_offset = log.end_offset if following is None else following.base_offset
        is_empty_end = following is None and segment.size == 0
        if (
            len(found) == _SEGMENTS_AT_ONCE
            or is_empty_end
            or log.high_watermark < end_offset
            or not is_deletable(segment, end_offset)
        ):
            break
        found.append(segment)
    return found
