"""Finds positions: committed offsets, first and end offsets, and validation against new leaders."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.consumer.fetches.buffers import Buffers
from cordwood.client.consumer.offsets.positions import UNKNOWN, PartitionState, Phase
from cordwood.client.consumer.offsets.reset_strategy import TO_END, ResetKind, ResetStrategy
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.consumer.subscription import Subscription
from cordwood.client.errors import (
    BrokerError,
    ClientError,
    GaveUp,
    LogTruncation,
    NoOffsetForPartition,
    UnsupportedByBroker,
)
from cordwood.client.leaders import Ask, ask_leader
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.offsets import asking_for_offsets
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.clock import Clock
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

Q = TypeVar("Q")
A = TypeVar("A")

Committed = Callable[[Collection[TopicPartition]], Awaitable[Mapping[TopicPartition, OffsetAndMetadata | None]]]

_CONSUMER = -1
# Earlier versions require a broker's permissions.
_EPOCHS_FROM = 3
# The group has removed the member, or is about to tell it: its partitions will be revoked, or it retries.
_FENCED = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.FENCED_MEMBER_EPOCH})


class PositionFinder:
    """`committed` asks the group; without one, positions start with `auto_offset_reset`. `found` is called when
    positions have changed, `stale` when fresh metadata is needed."""

    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        subscription: Subscription,
        buffers: Buffers,
        clock: Clock,
        backoff: Backoff,
        *,
        committed: Committed | None,
        found: Callable[[], None],
        stale: Callable[[], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._subscription = subscription
        self._buffers = buffers
        self._clock = clock
        self._backoff = backoff
        self._committed = committed
        self._found = found
        self._stale = stale
        self._strategy = ResetStrategy.parse(settings.auto_offset_reset)
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._sought: set[PartitionState] = set()

    def look(self, now_s: float) -> None:
        """Starts look-ups in the background."""
        for phase, find in self._ways.items():
            # One task per broker: a broker that does not answer delays only its own partitions.
            by_broker: dict[int | None, list[PartitionState]] = {}
            for state in self._subscription.states.values():
                if state.is_waiting_for(phase, now_s) and state not in self._sought:
                    broker_id = None if phase is Phase.INITIALIZING else self._leader(state.partition)
                    by_broker.setdefault(broker_id, []).append(state)
            for states in by_broker.values():
                self._sought.update(states)
                task = self._loop.create_task(self._find(phase, find, states))
                self._tasks[task] = None
                task.add_done_callback(self._tasks.pop)

    def _leader(self, partition: TopicPartition) -> int | None:
        try:
            return self._client.cluster.leader(partition)
        except BrokerError:
            return None

    @property
    def _ways(self) -> Mapping[Phase, Callable[[Sequence[PartitionState]], Awaitable[None]]]:
        return {Phase.INITIALIZING: self._initialize, Phase.RESETTING: self._reset, Phase.VALIDATING: self._validate}

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _find(
        self,
        phase: Phase,
        find: Callable[[Sequence[PartitionState]], Awaitable[None]],
        states: Sequence[PartitionState],
    ) -> None:
        try:
            await find(states)
        except ClientError as error:
            for state in states:
                self._failed(state, phase, error)
        finally:
            self._sought.difference_update(states)
        self._found()

    # ---- committed offsets

    async def _initialize(self, states: Sequence[PartitionState]) -> None:
        committed: Mapping[TopicPartition, OffsetAndMetadata | None] = {}
        if self._committed is not None:
            committed = await self._committed([state.partition for state in states])
        homeless = []
        for state in states:
            if not self._is_current(state, Phase.INITIALIZING):
                continue
            offset = committed.get(state.partition)
            if offset is not None:
                state.seek(offset.offset, UNKNOWN if offset.leader_epoch is None else offset.leader_epoch)
                self._hold_against_leader(state)
            elif self._strategy.kind is ResetKind.NONE:
                homeless.append(state)
            else:
                state.reset(self._strategy)
        for state in homeless:
            state.fail(
                NoOffsetForPartition(
                    f"there is no offset to read {', '.join(str(state.partition) for state in homeless)} from, and "
                    "auto_offset_reset is none",
                    {state.partition: None for state in homeless},
                )
            )

    def _hold_against_leader(self, state: PartitionState) -> None:
        """The offset may have been committed under a leader whose last records are lost: validate it."""
        topic = self._client.cluster.topics.get(state.partition.topic)
        if topic is not None and state.partition.partition < len(topic.partitions):
            state.observe_leader(topic.partitions[state.partition.partition].leader_epoch)

    # ---- first and end offsets

    async def _reset(self, states: Sequence[PartitionState]) -> None:
        now_ms = self._clock.now_ms()
        strategies = {state: state.reset_strategy for state in states}
        wanted = {state.partition: strategy.timestamp(now_ms) for state, strategy in strategies.items()}
        ask = asking_for_offsets(self._client, read_committed=self._settings.isolation_level == "read_committed")
        epochs = self._leader_epochs(wanted)
        for state, answer in await self._ask_leaders(states, wanted, ask):
            if not self._is_current(state, Phase.RESETTING) or state.reset_strategy is not strategies[state]:
                continue
            if isinstance(answer, ClientError):
                self._failed(state, Phase.RESETTING, answer)
            elif answer.offset < 0:
                # No record is that new.
                state.reset(TO_END)
            else:
                self._buffers.discard(state.partition)
                state.seek(answer.offset, answer.leader_epoch, epochs.get(state.partition, UNKNOWN))

    # ---- validation against a new leader (KIP-320)

    async def _validate(self, states: Sequence[PartitionState]) -> None:
        positions = {state: (state.offset, state.epoch) for state in states}
        for state, answer in await self._ask_leaders(
            states, {state.partition: state.epoch for state in states}, self._ask_for_epochs
        ):
            if not self._is_current(state, Phase.VALIDATING) or (state.offset, state.epoch) != positions[state]:
                continue
            if isinstance(answer, UnsupportedByBroker):
                state.validated()
            elif isinstance(answer, ClientError):
                self._failed(state, Phase.VALIDATING, answer)
            else:
                self._compare(state, answer)

    def _compare(self, state: PartitionState, end: EpochEndOffset) -> None:
        is_known = end.end_offset >= 0 and end.leader_epoch >= 0
        if is_known and end.end_offset >= state.offset:
            state.validated()
        elif self._strategy.kind is ResetKind.NONE:
            state.fail(
                LogTruncation(
                    f"{state.partition} was truncated below offset {state.offset}, which had already been consumed"
                    + (f": it diverges from offset {end.end_offset} on" if is_known else ""),
                    {state.partition: state.offset},
                    {state.partition: end.end_offset if is_known else None},
                )
            )
        elif is_known:
            # From the first diverging offset on.
            state.seek(end.end_offset, end.leader_epoch, state.leader_epoch)
        else:
            state.reset(self._strategy)

    async def _ask_for_epochs(
        self, broker: BrokerConnection, asked: Mapping[TopicPartition, int]
    ) -> Mapping[TopicPartition, EpochEndOffset | BrokerError]:
        topics: dict[str, OffsetForLeaderTopic] = {}
        epochs = self._leader_epochs(asked)
        for partition, epoch in asked.items():
            topic = topics.setdefault(partition.topic, OffsetForLeaderTopic(topic=partition.topic))
            topic.partitions.append(
                OffsetForLeaderPartition(
                    partition=partition.partition,
                    current_leader_epoch=epochs.get(partition, UNKNOWN),
                    leader_epoch=epoch,
                )
            )
        request = OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))
        response = await broker.ask(request, at_least=_EPOCHS_FROM)
        answers: dict[TopicPartition, EpochEndOffset | BrokerError] = {}
        for told in response.topics:
            for end in told.partitions:
                partition = TopicPartition(told.topic, end.partition)
                if end.error_code != ErrorCode.NONE:
                    answers[partition] = BrokerError(end.error_code, subject=str(partition))
                else:
                    answers[partition] = end
        return answers

    # ---- helpers

    def _leader_epochs(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        epochs = {}
        for partition in partitions:
            topic = self._client.cluster.topics.get(partition.topic)
            if topic is not None and partition.partition < len(topic.partitions):
                epochs[partition] = topic.partitions[partition.partition].leader_epoch
        return epochs

    async def _ask_leaders(
        self, states: Sequence[PartitionState], questions: Mapping[TopicPartition, Q], ask: Ask[Q, A]
    ) -> list[tuple[PartitionState, A | ClientError]]:
        """One try; returns an answer or an error for each, so that a partition without a leader delays no other."""
        answers: dict[TopicPartition, A | ClientError] = {}
        by_leader: dict[int, dict[TopicPartition, Q]] = {}
        for partition, question in questions.items():
            try:
                by_leader.setdefault(self._client.cluster.leader(partition), {})[partition] = question
            except BrokerError as error:
                answers[partition] = error

        async def ask_one(leader: int, asked: Mapping[TopicPartition, Q]) -> None:
            try:
                answers.update(await ask_leader(self._client, leader, asked, ask))
            except ClientError as error:
                answers.update(dict.fromkeys(asked, error))

        await asyncio.gather(*(ask_one(leader, asked) for leader, asked in by_leader.items()))
        return [(state, answers[state.partition]) for state in states]

    def _is_current(self, state: PartitionState, phase: Phase) -> bool:
        """False if the partition was revoked or repositioned while the request was in flight."""
        return self._subscription.states.get(state.partition) is state and state.phase is phase

    def _failed(self, state: PartitionState, phase: Phase, error: ClientError) -> None:
        if not self._is_current(state, phase):
            return
        if isinstance(error, GaveUp):
            # A poll waits without limit, as in Kafka's consumers.
            error = error.last
        is_fenced = isinstance(error, BrokerError) and error.code in _FENCED
        if not error.retriable and not is_fenced:
            state.fail(error)
            return
        if not isinstance(error, BrokerError) or error.is_stale_metadata:
            self._stale()
        state.rest_until(self._loop.time() + self._backoff.pause_s(state.failures + 1))
