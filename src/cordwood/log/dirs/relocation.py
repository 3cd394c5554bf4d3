"""Moves a replica between log directories of a broker, while it is written to and read from.

A future log is created in the target directory (`topic-0.ID-future`, as in Kafka) and catches up; then it replaces the
current one. After a crash at any point one of them is complete and identifiable: the current one, until the future one
is entirely on stable storage; from then on the future one, which gets its final name once the other is deleted.
"""

from cordwood.log.log import Log
from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.primitives import Uuid

from .directory import LogDirectory


class Relocation:
    """The owner calls `copy` until there is nothing left, flushes `future`, and then calls `finish`; or `give_up`."""

    def __init__(
        self,
        source: LogDirectory,
        destination: LogDirectory,
        topic: str,
        partition: int,
        topic_id: Uuid,
        clock: Clock,
    ) -> None:
        self.source = source
        self.destination = destination
        self.present = source.logs[topic, partition]
        self.future = destination.create_future(topic, partition, topic_id, clock.now_ms())
        self._key = (topic, partition)
        self._topic_id = topic_id
        self._clock = clock
        self._begin()

    @property
    def is_wanted(self) -> bool:
        """Returns whether both logs still exist: partitions may be deleted, and directories may fail."""
        return (
            self.source.logs.get(self._key) is self.present and self.destination.futures.get(self._key) is self.future
        )

    @property
    def lag(self) -> int:
        """Number of offsets that it lacks."""
        return max(0, self.present.end_offset - self.future.end_offset)

    def copy(self, max_bytes: int, *, to_the_end: bool = False) -> int:
        """Copies some of what the future log lacks; returns the bytes. Records above the high watermark, which may
        still be truncated, are copied only if nothing can happen before `finish`. Raises Refusal if the current log is
        damaged."""
        present, future = self.present, self.future
        if future.end_offset < present.start_offset or self._truncations != present.durability.truncations:
            # Retention deleted the next records first; or a follower's log was truncated, perhaps below the copied part
            # (after an unclean election), and may hold other records there by now.
            self._begin()
        limit = present.end_offset if to_the_end else present.high_watermark
        found = present.read(max(future.end_offset, present.start_offset), max_bytes, limit)
        if found is None:
            return 0
        future.append_as_follower(found.read(), self._clock.now_ms())
        return len(found)

    def finish(self) -> Log:
        """Replaces the current log, and its checkpointed offsets, by the future one. The current one's files are
        removed later. Raises DiskError; then the valid one is where it was, or in the failed directory, or the next
        start identifies the future one."""
        while self.copy(_FINAL_COPY_BYTES, to_the_end=True):
            pass
        now_ms = self._clock.now_ms()
        # They know more batches than the log alone can tell.
        self.future.producers = self.present.producers
        self.future.close(now_ms)
        self.future.high_watermark = self.present.high_watermark
        self.future.start_offset = self.present.start_offset
        self.destination.note_future(*self._key, self._cleaned_to)
        try:
            self.source.delete(*self._key, now_ms)
            self.source.disk.sync_directory()
        except DiskError:
            # The current log goes offline with its directory, where it may still exist: there must not be a second
            # copy. Nor may it be lost if it is already gone.
            self.source.logs[self._key] = self.present
            self.destination.leave_future(*self._key)
            raise
        return self.destination.adopt_future(*self._key, self._topic_id, now_ms)

    def give_up(self) -> None:
        if self.destination.futures.get(self._key) is self.future:
            self.destination.drop_future(*self._key, self._clock.now_ms())

    def _begin(self) -> None:
        """The future log begins where the current one does: with the whole batch that contains its start."""
        present = self.present
        self._truncations = present.durability.truncations
        # Records cleaned from now on may be copied in either form.
        self._cleaned_to = self.source.checkpoints.cleaner_offsets.get(self._key, 0)
        first = present.read(present.start_offset, 0, present.end_offset)
        bases = [] if first is None else [header.base_offset for _, header in batch_headers(first.read())]
        beginning = min([present.start_offset, *bases])
        if (self.future.start_offset, self.future.end_offset) != (beginning, beginning):
            self.future.truncate_fully(beginning, self._clock.now_ms())
        # Producers whose records were deleted may still retry. After a crash they must be known from the files, too.
        self.future.remember(present.producers.before(beginning))


_FINAL_COPY_BYTES = 1 << 20
