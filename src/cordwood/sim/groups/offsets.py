"""Committing offsets and asking for them, in every version, with the history of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.client import Client, by_topic
from cordwood.sim.histories.groups import Commit, CommitOutcome, OffsetRead
from cordwood.sim.partition import Partition
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
)
from cordwood.wire.primitives import Uuid

from .coordinator import UNAVAILABLE

_STATIC_MEMBERS_SINCE = 7
_EPOCHS_SINCE = 9
_GROUPS_SINCE = 8
_STABLE_SINCE = 7
_ALL_SINCE = 2
_ALL_PARTITIONS = 0.2

# The coordinator says that the commit does not count.
_REFUSALS = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
    }
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity of a member in its requests."""

    member_id: str = ""
    instance_id: str | None = None
    # Or member epoch.
    generation: int = -1
    has_epoch: bool = False


NOBODY = Identity()


@dataclass(frozen=True, slots=True)
class Position:
    """The offset of a partition owned by a member; or one set from outside."""

    offset: int
    tenure: int = -1


def new_commit(client: Client, group: str, partition: Partition, position: Position) -> Commit:
    run = client.run
    now_s = run.now_s
    commit = Commit(
        run.next_number(),
        client.name,
        group,
        partition,
        position.offset,
        position.tenure,
        begun_s=now_s,
        asked_s=now_s,
    )
    run.history.groups.commits.append(commit)
    return commit


async def commit_offsets(
    client: Client, group: str, positions: Mapping[Partition, Position], identity: Identity
) -> ErrorCode:
    """The first error, if there is one. Raises `NetworkError`."""
    run = client.run
    low = OffsetCommitRequest.stable_versions.low if identity.instance_id is None else _STATIC_MEMBERS_SINCE
    if identity.has_epoch:
        low = _EPOCHS_SINCE
    version = client.source.randint(low, OffsetCommitRequest.stable_versions.high)
    commits = {partition: new_commit(client, group, partition, position) for partition, position in positions.items()}
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=identity.generation,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=run.topic_ids[topic],
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index,
                        committed_offset=commits[topic, index].offset,
                        committed_metadata=str(commits[topic, index].number),
                    )
                    for index in indexes
                ],
            )
            for topic, indexes in by_topic(list(commits))
        ],
    )
    response = await client.ask(request, version)
    first_error = ErrorCode.NONE
    for partition, error in _commit_errors(client, response):
        commit = commits[partition]
        note_commit(client, commit, error)
        first_error = first_error or error
    if first_error in UNAVAILABLE:
        client.routes.forget_coordinators()
    return first_error


def _commit_errors(client: Client, response: OffsetCommitResponse) -> Iterator[tuple[Partition, ErrorCode]]:
    for topic in response.topics:
        name = topic.name or name_of(client, topic.topic_id)
        for partition in topic.partitions:
            yield (name, partition.partition_index), ErrorCode(partition.error_code)


def note_commit(client: Client, commit: Commit, error: ErrorCode) -> None:
    commit.ended_s = client.run.now_s
    commit.error = error
    if error == ErrorCode.NONE:
        commit.outcome = CommitOutcome.ACKNOWLEDGED
    elif error in _REFUSALS:
        commit.outcome = CommitOutcome.REFUSED


async def committed_offsets(
    client: Client, group: str, partitions: list[Partition], identity: Identity = NOBODY, *, require_stable: bool
) -> dict[Partition, int] | ErrorCode:
    """-1 where nothing is committed. Raises `NetworkError`."""
    run = client.run
    low = _STABLE_SINCE if require_stable else OffsetFetchRequest.stable_versions.low
    version = client.source.randint(low, OffsetFetchRequest.stable_versions.high)
    # A fetch of all offsets omits partitions with only pending offsets, as in Kafka.
    wants_all = version >= _ALL_SINCE and not require_stable and client.chance(_ALL_PARTITIONS)
    request = _fetch_request(client, group, None if wants_all else partitions, identity, version)
    request.require_stable = require_stable
    begun_s, coordinator = run.now_s, run.coordinator_of(group)
    response = await client.ask(request, version)
    if coordinator is not None and (
        coordinator != run.coordinator_of(group) or coordinator[0] != run.node_of(client.incarnation)
    ):
        # As in Kafka, a former coordinator that doesn't know its successor yet answers with its own state.
        client.routes.forget_coordinators()
        raise NetworkError("it may be outdated")
    told, error = _told(client, response, version)
    if error:
        client.routes.forget_coordinators()
        return error
    offsets: dict[Partition, int] = {}
    for partition in partitions:
        answer = told.get(partition)
        if answer is not None and answer.error_code:
            client.routes.forget_coordinators()
            return ErrorCode(answer.error_code)
        offset, metadata = (-1, "") if answer is None else (answer.committed_offset, answer.metadata or "")
        offsets[partition] = offset
        run.history.groups.offset_reads.append(
            OffsetRead(client.name, group, partition, begun_s, run.now_s, offset, metadata, require_stable)
        )
    return offsets


def _fetch_request(
    client: Client, group: str, partitions: list[Partition] | None, identity: Identity, version: int
) -> OffsetFetchRequest:
    topics = list(by_topic(partitions or []))
    if version < _GROUPS_SINCE:
        by_name = [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics]
        return OffsetFetchRequest(group_id=group, topics=None if partitions is None else by_name)
    by_id = [
        OffsetFetchRequestTopics(name=name, topic_id=client.run.topic_ids[name], partition_indexes=indexes)
        for name, indexes in topics
    ]
    asked = OffsetFetchRequestGroup(
        group_id=group,
        member_id=identity.member_id or None,
        member_epoch=identity.generation,
        topics=None if partitions is None else by_id,
    )
    return OffsetFetchRequest(groups=[asked])


def _told(
    client: Client, response: OffsetFetchResponse, version: int
) -> tuple[dict[Partition, OffsetFetchResponsePartition | OffsetFetchResponsePartitions], ErrorCode]:
    if version < _GROUPS_SINCE:
        by_name = {
            (topic.name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        return {**by_name}, ErrorCode(response.error_code)
    (group,) = response.groups
    by_id = {
        (topic.name or name_of(client, topic.topic_id), partition.partition_index): partition
        for topic in group.topics
        for partition in topic.partitions
    }
    return {**by_id}, ErrorCode(group.error_code)


def name_of(client: Client, topic_id: Uuid) -> str:
    return next((name for name, known in client.run.topic_ids.items() if known == topic_id), "")
