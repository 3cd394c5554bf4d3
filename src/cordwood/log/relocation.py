"""A replica on its way from one log directory of a broker to another, while it is written to and read from.

A future log is made in the other directory (`topic-0.ID-future`, as Kafka names it) and catches up, copy by copy; then
it takes the place of the present one. At any crash one of them is whole and can be told: the present one, until the
future one has all of it on stable storage; from then on the future one, which takes its name once the other is gone.
"""

from cordwood.runtime.clock import Clock
from cordwood.runtime.disk import DiskError
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.primitives import Uuid

from .directory import LogDirectory
from .log import Log


class Relocation:
    """Somebody calls `copy` until it has nothing to do, flushes `future`, and then calls `finish`; or `give_up`."""

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
        """Whether both are there still: partitions are deleted, and directories fail."""
        return (
            self.source.logs.get(self._key) is self.present and self.destination.futures.get(self._key) is self.future
        )

    @property
    def lag(self) -> int:
        """How many offsets it lacks."""
        return max(0, self.present.end_offset - self.future.end_offset)

    def copy(self, max_bytes: int, *, to_the_end: bool = False) -> int:
        """Copies some of what the future log lacks; the bytes. What may be truncated yet, above the high watermark, is
        only copied when nothing can happen before `finish`. Raises Refusal where the present log is damaged."""
        present, future = self.present, self.future
        if future.end_offset < present.start_offset:
            # Retention was faster.
            self._begin()
        limit = present.end_offset if to_the_end else present.high_watermark
        found = present.read(max(future.end_offset, present.start_offset), max_bytes, limit)
        if found is None:
            return 0
        future.append_as_follower(found.read(), self._clock.now_ms())
        return len(found)

    def finish(self) -> Log:
        """The future log takes the place of the present one, and of its offsets. The present one's files go later.
        Raises DiskError; then the one that counts is where it was, or in the directory that has failed, or the next
        start finds that it is the future one."""
        while self.copy(_FINAL_COPY_BYTES, to_the_end=True):
            pass
        now_ms = self._clock.now_ms()
        # These are known of more batches than a log alone can tell.
        self.future.producers = self.present.producers
        self.future.close(now_ms)
        self.future.high_watermark = self.present.high_watermark
        self.future.start_offset = self.present.start_offset
        self.destination.note_future(*self._key, self._cleaned_to)
        try:
            self.source.delete(*self._key, now_ms)
            self.source.disk.sync_directory()
        except DiskError:
            # The present one goes offline with its directory, where it may still be: there must not be another. Nor may
            # it be lost if it is not there any more.
            self.source.logs[self._key] = self.present
            self.destination.leave_future(*self._key)
            raise
        return self.destination.adopt_future(*self._key, self._topic_id, now_ms)

    def give_up(self) -> None:
        if self.destination.futures.get(self._key) is self.future:
            self.destination.drop_future(*self._key, self._clock.now_ms())

    def _begin(self) -> None:
        """The future log begins where the present one does: with the whole batch that its start lies in."""
        present = self.present
        # What is cleaned from here on is copied as it was before, or as it is after; who knows.
        self._cleaned_to = self.source.cleaner_offsets.get(self._key, 0)
        first = present.read(present.start_offset, 0, present.end_offset)
        bases = [] if first is None else [header.base_offset for _, header in batch_headers(first.read())]
        beginning = min([present.start_offset, *bases])
        if (self.future.start_offset, self.future.end_offset) != (beginning, beginning):
            self.future.truncate_fully(beginning, self._clock.now_ms())
        # Whose records were deleted, and may be sent once more. After a crash the files have to tell of them, too.
        self.future.remember(present.producers.before(beginning))


_FINAL_COPY_BYTES = 1 << 20
