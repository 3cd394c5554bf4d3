"""A member of a group as an application has it: the library's consumer, its listener, and commits by hand or not."""

import asyncio

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.consumer import Consumer, Records
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import (
    BrokerError,
    CommitFailed,
    GroupFenced,
    RebalanceInProgress,
    RetriableCommitFailed,
    TimedOut,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.sim.clients.client import Run
from cordwood.sim.groups.hands import Hands
from cordwood.sim.groups.member import GroupPlan
from cordwood.sim.histories.groups import CommitOutcome
from cordwood.sim.partition import Partition, partition_name
from cordwood.wire.errors import ErrorCode

from .consumer import note_poll
from .group_watch import Given, GroupWatch
from .life import LibraryClient
from .tap import Tap

_MAX_PAUSE_S = 0.15
_STALL = 0.03
_LEAVING = 0.02
_COMMIT = 0.5
_ASYNC = 0.3
_BEFORE_LETTING_GO = 0.5
_AUTO_COMMIT = 0.5
_PATTERN = 0.2
_CLOSE_TIMEOUTS_MS = (0, 500, 2_000)
_EAGER = (("range", "roundrobin"), ("roundrobin", "range"), ("sticky", "range", "roundrobin"))
_COOPERATIVE = ("cooperative-sticky",)
_REMOTE_ASSIGNORS = (None, "uniform", "range")

# Errors that end a membership: the member was replaced, or the group is incompatible.
_ENDS = {
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    # The error of a group of the other protocol that the member may not join.
    ErrorCode.GROUP_ID_NOT_FOUND,
}
# A commit may come too late.
_LATE = (CommitFailed, RetriableCommitFailed, RebalanceInProgress, GroupFenced, TimedOut)


class LibraryMember(LibraryClient):
    def __init__(
        self,
        run: Run,
        name: str,
        plan: GroupPlan,
        instance_id: str | None,
        protocol: str,
        *,
        commits: bool = True,
    ) -> None:
        """`protocol`: classic, or consumer (KIP-848). `commits`: it commits, automatically or explicitly."""
        super().__init__(run, name)
        self.plan = plan
        self.instance_id = instance_id
        self.hands = Hands(run, plan.group_id, plan.session_timeout_s, plan.rebalance_timeout_s)
        self._protocol = protocol
        self._watch = GroupWatch(self, plan, self.hands)
        self._tap = Tap(run, run.world.network.host(name), self._watch)
        self._commits = commits
        self._settings = self._drawn_settings()
        self._consumer: Consumer | None = None

    def died(self) -> None:
        self.hands.let_go_of_all()
        self._watch.begin()

    async def live(self) -> None:
        consumer = self._consumer = await self.started_consumer(self._settings, self._tap)
        if self.chance(_PATTERN):
            consumer.subscribe(pattern=f"^({'|'.join(self.plan.topics)})$", listener=self)
        else:
            consumer.subscribe(self.plan.topics, listener=self)
        while not self.run.is_over:
            try:
                await self.handle(consumer, await self._poll(consumer))
            except BrokerError as error:
                if error.code not in _ENDS:
                    raise
                await consumer.close(0)
                return
            if not self.is_calm and self.chance(_STALL):
                # The application is busy for so long that it may be considered stuck; heartbeats continue.
                await asyncio.sleep(self.plan.session_timeout_s * self.source.uniform(0.5, 2.0))
            elif not self.is_calm and self.chance(_LEAVING):
                self._is_through()
                await consumer.close(self.source.choice(_CLOSE_TIMEOUTS_MS))
                return
            await self.pause(_MAX_PAUSE_S)

    async def handle(self, consumer: Consumer, records: Records) -> None:
        """Handles the records of a poll, which are in the history."""
        if not self._settings.enable_auto_commit and self.chance(_COMMIT):
            await self._commit(consumer, list(self._watch.given))

    def _drawn_settings(self) -> ConsumerSettings:
        source, plan = self.source, self.plan
        session_ms = int(plan.session_timeout_s * 1000)
        return ConsumerSettings(
            **self.network_settings(),
            client_id=self.name,
            group_id=plan.group_id,
            group_instance_id=self.instance_id,
            group_protocol=self._protocol,
            group_remote_assignor=source.choice(_REMOTE_ASSIGNORS) if self._protocol == "consumer" else None,
            partition_assignment_strategy=_COOPERATIVE if plan.is_cooperative else source.choice(_EAGER),
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=session_ms // source.choice((3, 5)),
            max_poll_interval_ms=int(plan.rebalance_timeout_s * 1000),
            enable_auto_commit=self._commits and source.random() < _AUTO_COMMIT,
            auto_commit_interval_ms=source.choice((100, 500)),
            auto_offset_reset="earliest",
            isolation_level=source.choice(("read_uncommitted", "read_committed"))
            if self._commits
            else "read_committed",
            max_poll_records=source.choice((1, 5, 500)),
            fetch_max_wait_ms=source.choice((100, 500)),
            max_partition_fetch_bytes=source.choice((1_000, 1 << 20)),
        )

    async def _poll(self, consumer: Consumer) -> Records:
        self._is_through()
        begun_s = self.run.now_s
        records = await consumer.getmany(timeout_ms=self.source.choice((0, 50, 300)))
        for topic, index in records:
            if (topic, index) not in self.hands:
                self.complain(f"was given records of {topic}-{index}, which it does not have")
        given = self._watch.given
        positions = {partition: one.position for partition, one in given.items()}
        is_committed = self._settings.isolation_level == "read_committed"
        note_poll(self, records, positions, begun_s, is_committed=is_committed)
        for partition, position in positions.items():
            if partition in given:
                given[partition].position = position
            else:
                given[partition] = Given(position, -1)
        return records

    def _is_through(self) -> None:
        """The application polls again, so it has processed its records."""
        for given in self._watch.given.values():
            given.done = given.position

    # ---- its listener

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        assert self._consumer is not None
        metadata = self._consumer.group_metadata()
        is_led = self._protocol == "classic" and not self.plan.has_both_protocols
        for topic, index in assigned:
            if (topic, index) in self.hands:
                self.complain(f"was given {topic}-{index} twice")
        self.hands.take(
            [(partition.topic, partition.partition) for partition in assigned],
            self.instance_id or metadata.member_id,
            metadata.generation_id if is_led else -1,
        )

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        assert self._consumer is not None
        partitions = [(partition.topic, partition.partition) for partition in revoked]
        if self._commits and not self._settings.enable_auto_commit and self.chance(_BEFORE_LETTING_GO):
            self._is_through()
            await self._commit_now(self._consumer, partitions)
        self._let_go(partitions)

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self._let_go([(partition.topic, partition.partition) for partition in lost])

    def _let_go(self, partitions: list[Partition]) -> None:
        for partition in partitions:
            if partition not in self.hands:
                self.complain(f"must release {partition_name(partition)}, which it does not own")
        self.hands.let_go([partition for partition in partitions if partition in self.hands])
        for partition in partitions:
            self._watch.given.pop(partition, None)

    # ---- commits by hand

    async def _commit(self, consumer: Consumer, partitions: list[Partition]) -> None:
        self._is_through()
        if self.chance(_ASYNC):
            consumer.commit_async(self._offsets(partitions))
        else:
            await self._commit_now(consumer, partitions)

    async def _commit_now(self, consumer: Consumer, partitions: list[Partition]) -> None:
        offsets = self._offsets(partitions)
        if not offsets:
            return
        try:
            await consumer.commit(offsets)
        except _LATE:
            return
        acknowledged = {
            str(commit.number)
            for commit in self.run.history.groups.commits
            if commit.outcome is CommitOutcome.ACKNOWLEDGED
        }
        for partition, committed in offsets.items():
            if committed.metadata not in acknowledged:
                self.complain(f"got {committed} as committed for {partition}, which was never answered")

    def _offsets(self, partitions: list[Partition]) -> dict[TopicPartition, OffsetAndMetadata]:
        """With numbers, by which they are known."""
        given = self._watch.given
        return {
            TopicPartition(*partition): OffsetAndMetadata(
                given[partition].position, str(self._watch.plan(partition, given[partition].position).number)
            )
            for partition in partitions
            if partition in given
        }
