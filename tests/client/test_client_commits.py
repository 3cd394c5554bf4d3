"""Commits and committed offsets, with a coordinator that answers as the test says; on virtual time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from scripted_broker import TOPIC_ID, Cut, ScriptedBroker, scripted_brokers

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.consumer.commits import Commits, Completed
from cordwood.client.consumer.membership.events import GroupMetadata
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import (
    BadAnswer,
    BadSetting,
    BrokerError,
    ClientError,
    CommitFailed,
    GaveUp,
    GroupFenced,
    RebalanceInProgress,
    RetriableCommitFailed,
    TimedOut,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
MEMBER = GroupMetadata("g", 5, "m", None)


@dataclass
class Membership:
    """A place in the group that changes when the test says so."""

    client: Client
    metadata: GroupMetadata = MEMBER
    assignment: frozenset[TopicPartition] = frozenset()
    is_rebalancing: bool = False
    forgotten: int = 0

    async def coordinator(self) -> BrokerConnection:
        return await self.client.broker(1)

    def forget_coordinator(self) -> None:
        self.forgotten += 1


@dataclass
class Stage:
    broker: ScriptedBroker
    commits: Commits
    group: Membership
    client: Client
    position: dict[TopicPartition, OffsetAndMetadata] = field(default_factory=dict)
    codes: list[Any] = field(default_factory=list)
    """How the next commits are answered, then with success: a code, a code by partition, or `Cut`."""
    stored: dict[tuple[str, int], tuple[int, str | None, int]] = field(default_factory=dict)
    refusals: list[int] = field(default_factory=list)
    """How the next questions for offsets are answered."""

    @property
    def seen(self) -> list[OffsetCommitRequest]:
        return self.broker.seen_of(OffsetCommitRequest)

    @property
    def seen_offsets(self) -> list[dict[int, int]]:
        return [
            {told.partition_index: told.committed_offset for topic in request.topics for told in topic.partitions}
            for request in self.seen
        ]

    async def finished(self, count: int) -> list[Completed]:
        done: list[Completed] = []
        while len(done) < count:
            await asyncio.sleep(0.01)
            done += self.commits.take_completed()
        return done

    def answer_commit(self, request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
        code = self.codes.pop(0) if self.codes else ErrorCode.NONE
        if code is Cut:
            raise Cut
        topics = []
        for topic in request.topics:
            told = []
            for partition in topic.partitions:
                its_code = code.get(partition.partition_index, 0) if isinstance(code, dict) else code
                told.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=its_code)
                )
                if its_code == ErrorCode.NONE:
                    name = "t" if version >= 10 else topic.name
                    self.stored[name, partition.partition_index] = (
                        partition.committed_offset,
                        partition.committed_metadata,
                        partition.committed_leader_epoch,
                    )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=told))
        return OffsetCommitResponse(topics=topics)

    def answer_committed(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        code = self.refusals.pop(0) if self.refusals else ErrorCode.NONE
        asked: Any = request.topics if version < 8 else request.groups[0].topics
        kinds: Any = (
            (OffsetFetchResponseTopic, OffsetFetchResponsePartition)
            if version < 8
            else (OffsetFetchResponseTopics, OffsetFetchResponsePartitions)
        )
        topics = []
        for topic in asked:
            told = []
            for index in topic.partition_indexes:
                name = "t" if version >= 10 else topic.name
                offset, metadata, epoch = self.stored.get((name, index), (-1, "", -1))
                told.append(
                    kinds[1](
                        partition_index=index,
                        committed_offset=offset,
                        metadata=metadata,
                        committed_leader_epoch=epoch,
                        error_code=code if code == ErrorCode.UNSTABLE_OFFSET_COMMIT else 0,
                    )
                )
            answered = kinds[0](partitions=told)
            if version >= 10:
                answered.topic_id = topic.topic_id
            else:
                answered.name = topic.name
            topics.append(answered)
        group_code = 0 if code == ErrorCode.UNSTABLE_OFFSET_COMMIT else code
        if version < 8:
            return OffsetFetchResponse(topics=topics, error_code=group_code)
        group = OffsetFetchResponseGroup(group_id=request.groups[0].group_id, topics=topics, error_code=group_code)
        return OffsetFetchResponse(groups=[group])


def play(
    scene: Callable[[Stage], Awaitable[None]],
    *,
    versions: dict[int, int] | None = None,
    is_member: bool = True,
    knows_topic: bool = True,
    **settings: Any,
) -> None:
    world = World(1, limit_s=3_600)

    async def main() -> None:
        options = ConsumerSettings(group_id="g", **settings)
        async with scripted_brokers(1, world) as (broker,):
            broker.leaders = [1, 1]
            broker.max_versions = versions or {}
            async with await Client.connect(
                [broker.address], options, network=world.network.host("client"), random=SeededRandom(1)
            ) as client:
                if knows_topic:
                    await client.topics(["t"])
                group = Membership(client)
                position: dict[TopicPartition, OffsetAndMetadata] = {}
                commits = Commits(client, options, group, consumed=lambda: position)
                commits.is_member = is_member
                stage = Stage(broker, commits, group, client, position)
                broker.answers[OffsetCommitRequest.api_key] = stage.answer_commit
                broker.answers[OffsetFetchRequest.api_key] = stage.answer_committed
                await scene(stage)
                await commits.close(1)

    world.run(main())


# ---- commit


def test_a_commit_says_who_commits_and_all_that_is_committed() -> None:
    async def scene(stage: Stage) -> None:
        stage.group.metadata = GroupMetadata("g", 5, "m", "i")
        await stage.commits.commit({P0: OffsetAndMetadata(7, "so far", 3)})
        (request,) = stage.seen
        assert (request.group_id, request.generation_id_or_member_epoch) == ("g", 5)
        assert (request.member_id, request.group_instance_id) == ("m", "i")
        assert request.topics[0].topic_id == TOPIC_ID
        assert stage.stored == {("t", 0): (7, "so far", 3)}

    play(scene)


def test_who_reads_what_it_was_not_given_by_the_group_commits_as_nobody() -> None:
    async def scene(stage: Stage) -> None:
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        (request,) = stage.seen
        assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")

    play(scene, is_member=False)


@pytest.mark.parametrize("version", range(2, 10))
def test_older_coordinators_are_told_in_their_own_words(version: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.group.metadata = GroupMetadata("g", 5, "m", "i")
        await stage.commits.commit({P0: OffsetAndMetadata(7, "so far")})
        assert stage.stored == {("t", 0): (7, "so far", -1)}
        assert stage.seen[0].topics[0].name == "t"

    play(scene, versions={OffsetCommitRequest.api_key: version})


def test_a_topic_whose_id_is_not_known_is_named() -> None:
    async def scene(stage: Stage) -> None:
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert stage.seen[0].topics[0].name == "t"

    play(scene, knows_topic=False)


def test_nothing_to_commit_is_done_at_once() -> None:
    async def scene(stage: Stage) -> None:
        await stage.commits.commit({})
        assert stage.seen == []

    play(scene)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_COORDINATOR,
        Cut,
    ],
)
def test_a_commit_is_tried_again_after_what_may_pass(code: Any) -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [code, code]
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert len(stage.seen) == 3
        assert stage.stored["t", 0][0] == 7

    play(scene)


@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, Cut])
def test_a_coordinator_that_is_none_is_looked_for_again(code: Any) -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [code]
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert stage.group.forgotten == 1

    play(scene)


def test_who_is_told_to_hurry_gives_up_in_time_and_says_what_went_wrong_last() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        with pytest.raises(GaveUp, match="still loading") as caught:
            await stage.commits.commit({P0: OffsetAndMetadata(7)}, 3)
        assert caught.value.timeout_s == 3
        seen = len(stage.seen)
        await asyncio.sleep(30)
        assert len(stage.seen) <= seen + 1

    play(scene)


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION])
def test_a_group_that_went_on_without_this_member_is_told_of_with_what_to_do(code: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [code]
        with pytest.raises(CommitFailed, match=r"max_poll_interval_ms.*max_poll_records"):
            await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert len(stage.seen) == 1

    play(scene)


def test_a_generation_that_has_passed_while_the_group_rebalances_may_commit_after_it() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.ILLEGAL_GENERATION]
        commit = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(7)}))
        await asyncio.sleep(0)
        stage.group.metadata = replace(MEMBER, generation_id=6)
        stage.group.is_rebalancing = True
        with pytest.raises(RebalanceInProgress):
            await commit

    play(scene)


@pytest.mark.parametrize(("kept", "error"), [(P0, RebalanceInProgress), (P1, CommitFailed)])
def test_a_generation_that_has_passed_with_a_rebalance_may_commit_what_it_has_kept(
    kept: TopicPartition, error: type[ClientError]
) -> None:
    """Cooperative: it works on through the rebalance, which was over when the commit was refused."""

    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.ILLEGAL_GENERATION]
        commit = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(7)}))
        await asyncio.sleep(0)
        stage.group.metadata = replace(MEMBER, generation_id=6)
        stage.group.assignment = frozenset({kept})
        with pytest.raises(error):
            await commit

    play(scene)


@pytest.mark.parametrize(
    ("is_rebalancing", "has_lost", "error"),
    [(True, False, RebalanceInProgress), (True, True, CommitFailed), (False, False, CommitFailed)],
)
def test_who_is_no_member_cannot_commit(is_rebalancing: bool, has_lost: bool, error: type[ClientError]) -> None:
    async def scene(stage: Stage) -> None:
        stage.group.metadata = GroupMetadata("g")
        stage.group.is_rebalancing = is_rebalancing
        stage.group.assignment = frozenset({P0}) if has_lost else frozenset()
        with pytest.raises(error):
            await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert stage.seen == []

    play(scene)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, RebalanceInProgress),
        (ErrorCode.FENCED_INSTANCE_ID, GroupFenced),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, BrokerError),
        (ErrorCode.INVALID_COMMIT_OFFSET_SIZE, BrokerError),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BrokerError),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, BrokerError),
    ],
)
def test_what_will_not_pass_is_raised_at_once(code: int, error: type[BrokerError]) -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [code]
        with pytest.raises(error) as caught:
            await stage.commits.commit({P0: OffsetAndMetadata(7)})
        assert caught.value.code == code
        assert len(stage.seen) == 1

    play(scene)


def test_of_several_partitions_the_error_that_will_not_pass_counts() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [{0: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}]
        with pytest.raises(BrokerError) as caught:
            await stage.commits.commit({P0: OffsetAndMetadata(7), P1: OffsetAndMetadata(8)})
        assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED

    play(scene)


def test_a_partition_that_the_coordinator_says_nothing_of_is_not_committed() -> None:
    async def scene(stage: Stage) -> None:
        stage.broker.answers[OffsetCommitRequest.api_key] = lambda request, version: OffsetCommitResponse(topics=[])
        with pytest.raises(BadAnswer, match="t-0"):
            await stage.commits.commit({P0: OffsetAndMetadata(7)})

    play(scene)


@pytest.mark.parametrize("offset", [7, OffsetAndMetadata(-1), OffsetAndMetadata(1, None)])  # type: ignore[arg-type]
def test_what_is_no_offset_is_refused_before_it_is_sent(offset: Any) -> None:
    async def scene(stage: Stage) -> None:
        with pytest.raises(BadSetting, match="t-0"):
            await stage.commits.commit({P0: offset})

    play(scene)


# ---- KIP-848: epochs


def test_a_stale_epoch_is_replaced_by_the_one_that_a_heartbeat_brings() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.STALE_MEMBER_EPOCH] * 3

        async def beat() -> None:
            while len(stage.seen) < 2:
                await asyncio.sleep(0.01)
            stage.group.metadata = replace(MEMBER, generation_id=6)

        heartbeat = asyncio.ensure_future(beat())
        await stage.commits.commit({P0: OffsetAndMetadata(7)})
        await heartbeat
        assert [request.generation_id_or_member_epoch for request in stage.seen][-2:] == [6, 6]
        assert stage.stored["t", 0][0] == 7

    play(scene, group_protocol="consumer")


def test_an_epoch_that_grew_meanwhile_is_taken_for_a_commit_that_waited() -> None:
    async def scene(stage: Stage) -> None:
        stage.commits.commit_async({P0: OffsetAndMetadata(7)})
        stage.group.metadata = replace(MEMBER, generation_id=6)
        await stage.finished(1)
        assert [request.generation_id_or_member_epoch for request in stage.seen] == [6]

    play(scene, group_protocol="consumer")


def test_a_commit_of_an_old_generation_does_not_count_for_the_new_one() -> None:
    async def scene(stage: Stage) -> None:
        stage.commits.commit_async({P0: OffsetAndMetadata(7)})
        stage.group.metadata = replace(MEMBER, generation_id=6)
        await stage.finished(1)
        assert [request.generation_id_or_member_epoch for request in stage.seen] == [5]

    play(scene, group_protocol="classic")


def test_who_was_fenced_cannot_commit_with_a_new_epoch() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.STALE_MEMBER_EPOCH]
        commit = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(7)}))
        while not stage.seen:
            await asyncio.sleep(0)
        stage.group.metadata = GroupMetadata("g")
        with pytest.raises(CommitFailed):
            await commit

    play(scene, group_protocol="consumer")


# ---- commits that nobody waits for


def test_a_commit_that_nobody_waits_for_is_tried_once_and_says_that_it_may_be_tried_again() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        stage.commits.commit_async({P0: OffsetAndMetadata(7)})
        (done,) = await stage.finished(1)
        assert isinstance(done.error, RetriableCommitFailed)
        assert done.error.retriable
        assert isinstance(done.error.__cause__, BrokerError)
        assert len(stage.seen) == 1

    play(scene)


def test_commits_that_wait_for_their_turn_go_together_and_each_is_told_of() -> None:
    async def scene(stage: Stage) -> None:
        told: list[Any] = []
        stage.commits.commit_async({P0: OffsetAndMetadata(1)}, lambda offsets, error: told.append(offsets))
        await asyncio.sleep(0)
        for offset in range(2, 50):
            stage.commits.commit_async({P0: OffsetAndMetadata(offset)})
        done = await stage.finished(49)
        assert [completed.offsets[P0].offset for completed in done] == list(range(1, 50))
        assert stage.seen_offsets == [{0: 1}, {0: 49}]
        assert done[0].callback is not None
        done[0].callback(done[0].offsets, done[0].error)
        assert told == [{P0: OffsetAndMetadata(1)}]

    play(scene)


def test_each_of_those_that_go_together_hears_of_its_own_partitions_only() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [{1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}]
        stage.commits.commit_async({P0: OffsetAndMetadata(1)})
        stage.commits.commit_async({P1: OffsetAndMetadata(2)})
        first, second = await stage.finished(2)
        assert first.error is None
        assert second.error is not None
        assert len(stage.seen) == 1

    play(scene)


def test_a_later_commit_is_never_overtaken_by_an_earlier_one_that_is_tried_again() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 3
        earlier = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(1)}))
        await asyncio.sleep(0)
        stage.commits.commit_async({P0: OffsetAndMetadata(2)})
        later = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(3)}))
        await asyncio.gather(earlier, later)
        assert stage.seen_offsets == [{0: 1}] * 4 + [{0: 2}, {0: 3}]
        assert [done.offsets[P0].offset for done in stage.commits.take_completed()] == [1, 2, 3]

    play(scene)


def test_who_gives_up_waiting_takes_its_commit_back() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        first = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(1)}, 5))
        await asyncio.sleep(0)
        with pytest.raises(GaveUp):
            await stage.commits.commit({P0: OffsetAndMetadata(2)}, 1)
        with pytest.raises(GaveUp):
            await first
        stage.codes = []
        await asyncio.sleep(10)
        assert {0: 2} not in stage.seen_offsets

    play(scene)


def test_commits_are_waited_for_when_the_consumer_closes() -> None:
    async def scene(stage: Stage) -> None:
        stage.commits.commit_async({P0: OffsetAndMetadata(1)})
        await stage.commits.close(1)
        (done,) = stage.commits.take_completed()
        assert done.error is None

    play(scene)


def test_a_commit_whose_turn_does_not_come_before_the_consumer_closes_is_told_so() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        blocking = asyncio.ensure_future(stage.commits.commit({P0: OffsetAndMetadata(1)}))
        await asyncio.sleep(0)
        stage.commits.commit_async({P0: OffsetAndMetadata(2)})
        await stage.commits.close(3)
        blocking.cancel()
        assert [type(done.error) for done in stage.commits.take_completed()] == [TimedOut]

    play(scene)


# ---- commits that go by themselves


def test_what_the_application_was_given_is_committed_when_it_polls_after_the_interval() -> None:
    async def scene(stage: Stage) -> None:
        stage.position[P0] = OffsetAndMetadata(10)
        stage.commits.auto_commit()
        await asyncio.sleep(4.9)
        stage.commits.auto_commit()
        assert stage.seen == []
        await asyncio.sleep(0.2)
        stage.commits.auto_commit()
        stage.position[P0] = OffsetAndMetadata(20)
        await stage.finished(1)
        assert stage.seen_offsets == [{0: 10}]
        stage.commits.auto_commit()
        await asyncio.sleep(5)
        stage.commits.auto_commit()
        await stage.finished(1)
        assert stage.seen_offsets == [{0: 10}, {0: 20}]

    play(scene)


def test_an_automatic_commit_that_may_succeed_soon_does_not_wait_for_the_interval() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
        stage.position[P0] = OffsetAndMetadata(10)
        await asyncio.sleep(5)
        stage.commits.auto_commit()
        await stage.finished(1)
        await asyncio.sleep(0.2)
        stage.commits.auto_commit()
        (done,) = await stage.finished(1)
        assert done.error is None

    play(scene)


def test_there_is_one_automatic_commit_at_a_time() -> None:
    async def scene(stage: Stage) -> None:
        stage.position[P0] = OffsetAndMetadata(10)
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 1000
        blocking = asyncio.ensure_future(stage.commits.commit({P1: OffsetAndMetadata(1)}, 22))
        for _ in range(4):
            await asyncio.sleep(5)
            stage.commits.auto_commit()
        stage.codes = []
        await blocking
        await asyncio.sleep(1)
        assert [set(done.offsets) for done in stage.commits.take_completed()] == [{P1}, {P0}]

    play(scene)


def test_there_is_no_automatic_commit_of_nothing() -> None:
    async def scene(stage: Stage) -> None:
        await asyncio.sleep(60)
        stage.commits.auto_commit()
        assert await stage.commits.before_release(1) is None
        await asyncio.sleep(1)
        assert stage.commits.take_completed() == []

    play(scene)


def test_nothing_is_committed_by_itself_where_that_was_not_wanted() -> None:
    async def scene(stage: Stage) -> None:
        stage.position[P0] = OffsetAndMetadata(10)
        await asyncio.sleep(60)
        stage.commits.auto_commit()
        assert await stage.commits.before_release(1) is None
        assert stage.commits.auto_commit_in_s is None
        assert stage.seen == []

    play(scene, enable_auto_commit=False)


def test_nothing_is_committed_by_itself_for_who_is_no_member() -> None:
    async def scene(stage: Stage) -> None:
        stage.position[P0] = OffsetAndMetadata(10)
        stage.group.metadata = GroupMetadata("g")
        await asyncio.sleep(60)
        stage.commits.auto_commit()
        assert await stage.commits.before_release(1) is None
        assert stage.seen == []

    play(scene)


def test_before_partitions_go_to_others_what_was_given_is_committed_with_retries() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS] * 2
        stage.position[P0] = OffsetAndMetadata(10)
        assert await stage.commits.before_release(5) is None
        assert stage.stored["t", 0][0] == 10

    play(scene)


def test_commits_under_way_are_done_before_partitions_go_to_others() -> None:
    async def scene(stage: Stage) -> None:
        stage.commits.commit_async({P0: OffsetAndMetadata(3)})
        await stage.commits.before_release(5)
        assert stage.stored["t", 0][0] == 3

    play(scene, enable_auto_commit=False)


def test_a_topic_that_was_deleted_does_not_keep_others_waiting_for_its_partitions() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [{0: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
        stage.position.update({P0: OffsetAndMetadata(10), P1: OffsetAndMetadata(11)})
        assert await stage.commits.before_release(5) is None
        assert len(stage.seen) == 1
        assert stage.stored["t", 1][0] == 11

    play(scene)


def test_an_automatic_commit_that_fails_at_the_last_moment_is_told_not_raised() -> None:
    async def scene(stage: Stage) -> None:
        stage.codes = [ErrorCode.UNKNOWN_MEMBER_ID]
        stage.position[P0] = OffsetAndMetadata(10)
        assert isinstance(await stage.commits.before_release(5), CommitFailed)

    play(scene)


# ---- committed


@pytest.mark.parametrize("version", range(1, 11))
def test_what_was_committed_is_found_in_every_version(version: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.stored["t", 0] = (7, "so far", 3)
        found = await stage.commits.committed([P0, P1])
        assert found == {P0: OffsetAndMetadata(7, "so far", 3 if version >= 5 else None), P1: None}
        (request,) = stage.broker.seen_of(OffsetFetchRequest)
        assert request.require_stable == (version >= 7)

    play(scene, versions={OffsetFetchRequest.api_key: version})


def test_a_partition_that_the_coordinator_says_nothing_of_is_not_one_without_an_offset() -> None:
    """That would be read again from its beginning."""

    async def scene(stage: Stage) -> None:
        silent = OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="g")])
        stage.broker.answers[OffsetFetchRequest.api_key] = lambda request, version: silent
        with pytest.raises(BadAnswer, match="says nothing of t-1"):
            await stage.commits.committed([P1])

    play(scene)


def test_no_partition_is_no_question() -> None:
    async def scene(stage: Stage) -> None:
        assert await stage.commits.committed([]) == {}
        assert stage.broker.seen_of(OffsetFetchRequest) == []

    play(scene)


@pytest.mark.parametrize("version", [7, 10])
@pytest.mark.parametrize(
    "code", [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR]
)
def test_offsets_that_are_not_certain_yet_are_waited_for(code: int, version: int) -> None:
    async def scene(stage: Stage) -> None:
        stage.stored["t", 0] = (7, "", -1)
        stage.refusals = [code] * 3
        assert await stage.commits.committed([P0]) == {P0: OffsetAndMetadata(7)}

    play(scene, versions={OffsetFetchRequest.api_key: version})


def test_a_member_of_a_kip_848_group_says_who_asks_and_asks_again_with_a_new_epoch() -> None:
    async def scene(stage: Stage) -> None:
        stage.refusals = [ErrorCode.STALE_MEMBER_EPOCH]
        await stage.commits.committed([P0])
        groups = [request.groups[0] for request in stage.broker.seen_of(OffsetFetchRequest)]
        assert [(group.member_id, group.member_epoch) for group in groups] == [("m", 5), ("m", 5)]

    play(scene, group_protocol="consumer")


def test_a_question_of_who_is_not_allowed_is_refused() -> None:
    async def scene(stage: Stage) -> None:
        stage.refusals = [ErrorCode.GROUP_AUTHORIZATION_FAILED]
        with pytest.raises(BrokerError, match="group g"):
            await stage.commits.committed([P0])

    play(scene)
