"""**StreamProgress**: how far a streaming query is, and how far it goes next."""

import asyncio
import logging
from collections.abc import Collection, Iterator

from cordwood.client.admin.offsets import alter_group_offsets
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.runtime.clock import Clock, SystemClock
from cordwood.spark.source.admission import BatchDelay, admitted
from cordwood.spark.source.link import Link
from cordwood.spark.source.log_sizes import bytes_per_offset
from cordwood.spark.source.loss import LossReport
from cordwood.spark.source.offset_lookup import earliest, latest, resolve
from cordwood.spark.source.offsets import Offsets
from cordwood.spark.source.options import SourceOptions
from cordwood.spark.source.ranges import OffsetRange

_log = logging.getLogger(__name__)


class StreamProgress:
    """Spark calls these one at a time: `initial` once in a query's life, then `latest` and `ranges` for each batch."""

    def __init__(self, link: Link, options: SourceOptions, clock: Clock | None = None) -> None:
        self.known_latest: dict[TopicPartition, int] | None = None
        """Where the partitions ended when they were last looked at."""
        self._link = link
        self._options = options
        self._clock = clock if clock is not None else SystemClock()
        self._delay = BatchDelay(options.limits)
        self._losses = LossReport(fails=options.fail_on_data_loss)
        self._fixed_end: dict[TopicPartition, int] | None = None
        # Where partitions begin that have come since the query's last batch.
        self._new: dict[TopicPartition, int] = {}
        # Where a new query begins; None once its first batch has been planned.
        self._initial: dict[TopicPartition, int] | None = None
        self._committed: dict[TopicPartition, int] | None = None
        self._committing: asyncio.Task[None] | None = None

    def initial(self) -> dict[TopicPartition, int]:
        """Starts at the offsets of `startingOffsets` and similar options."""
        self._initial = self._link.run(self._find_initial())
        return self._initial

    async def _find_initial(self) -> dict[TopicPartition, int]:
        client = self._link.client
        partitions = await self._options.topics.partitions(client)
        return await resolve(
            client, self._options.starting, partitions, self._losses, read_committed=self._options.read_committed
        )

    def fix_end(self) -> None:
        """Fixes the end: later records are not read."""
        self._fixed_end = self._link.run(self._latest())

    def latest(self, start: Offsets | None, *, is_limited: bool) -> dict[TopicPartition, int]:
        """Where the next batch ends. All before `start` has been processed; None: that is not known."""
        found = self.known_latest = self._link.run(self._latest())
        initial, self._initial = self._initial, None
        if initial is not None and self._options.starting.may_be_latest:
            # The first batch is empty, and its end goes into the checkpoint: a query that is killed in its first batch
            # would look up a later `latest` after its restart, and skip the records in between.
            return initial
        if start is None:
            return found
        self._commit_soon(start)
        begins = self._begins(start, found)
        if self._fixed_end is not None:
            found = _up_to(self._fixed_end, start, found)
            begins = {partition: begins[partition] for partition in found}
        if not is_limited:
            return found
        if self._fixed_end is None and not self._delay.is_over(begins, found, self._clock.now_ms()):
            return dict(start)
        limits = self._options.limits
        weights = None
        if limits.max_bytes is not None:
            weights = self._link.run(bytes_per_offset(self._link.client, list(found)))
        return admitted(begins, found, limits, weights)

    def _begins(self, start: Offsets, found: Offsets) -> dict[TopicPartition, int]:
        """Adds new partitions; deleted ones are a loss."""
        if gone := start.keys() - found.keys():
            self._losses.gone(gone)
        for partition in start.keys() & found.keys():
            if found[partition] < start[partition]:
                self._losses.ends_earlier(partition, start[partition], found[partition])
        new = found.keys() - start.keys()
        self._find_new(new)
        return {partition: start.get(partition, self._new.get(partition, 0)) for partition in found}

    def _find_new(self, partitions: Collection[TopicPartition]) -> None:
        """They are read from their start, which is 0 unless records have been deleted."""
        if unknown := [partition for partition in partitions if partition not in self._new]:
            begins = self._link.run(earliest(self._link.client, unknown))
            for partition, begin in begins.items():
                if begin > 0:
                    self._losses.added_late(partition, begin)
                self._new[partition] = begin

    def ranges(self, start: Offsets, end: Offsets) -> list[OffsetRange]:
        """Returns the ranges of a batch, which may be repeated after a restart."""
        if gone := start.keys() - end.keys():
            self._losses.gone(gone)
        self._find_new(end.keys() - start.keys())
        ranges = list(self._ranges(start, end))
        self._initial = None
        return ranges

    def _ranges(self, start: Offsets, end: Offsets) -> Iterator[OffsetRange]:
        for partition in sorted(end):
            begin = start.get(partition, self._new.get(partition, 0))
            if begin <= end[partition]:
                yield OffsetRange(partition, begin, end[partition])
            elif self._initial is None:
                self._losses.ends_earlier(partition, begin, end[partition])
            # Otherwise the first batch, which was empty, is being done again from a later `latest`.

    async def _latest(self) -> dict[TopicPartition, int]:
        client = self._link.client
        partitions = await self._options.topics.partitions(client, missing_is_error=self._options.fail_on_data_loss)
        return await latest(client, partitions, read_committed=self._options.read_committed)

    # ---- progress in a group

    def commit(self, end: Offsets) -> None:
        """Spark calls this when the next batch is planned; `latest` knows it sooner."""
        self._commit_soon(end)

    def _commit_soon(self, offsets: Offsets) -> None:
        """Not awaited: it is for observers only; the checkpoint decides."""
        if self._options.commit_group is None or offsets == self._committed:
            return
        self._committed = dict(offsets)
        self._link.post(self._begin_commit, dict(offsets))

    def _begin_commit(self, offsets: Offsets) -> None:
        self._committing = asyncio.get_running_loop().create_task(self._commit(self._committing, offsets))

    async def _commit(self, before: "asyncio.Task[None] | None", offsets: Offsets) -> None:
        if before is not None:
            await before
        group = self._options.commit_group
        assert group is not None
        wanted = {partition: OffsetAndMetadata(offset) for partition, offset in offsets.items()}
        try:
            results = await alter_group_offsets(self._link.client, group, wanted)
        except ClientError as error:
            _log.warning("Cannot commit progress to group %s; the query continues: %s", group, error)
            return
        if refused := next((error for error in results.values() if error is not None), None):
            _log.warning("Cannot commit progress to group %s; the query continues: %s", group, refused)

    def close(self) -> None:
        """Waits for commits in flight."""

        async def finish() -> None:
            if self._committing is not None:
                await self._committing

        self._link.run(finish())


def _up_to(fixed_end: Offsets, start: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """The end as of when it was fixed; a query that is already further stays where it is."""
    return {
        partition: min(max(fixed_end.get(partition, 0), start.get(partition, 0)), end)
        for partition, end in latest.items()
        if partition in fixed_end or partition in start
    }
