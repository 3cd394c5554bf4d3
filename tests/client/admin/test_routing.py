"""Routing of the admin client's requests to leaders, coordinators and single brokers, also old ones."""

from collections.abc import Callable

import pytest

from cordwood.client.admin.configs import AlterOperation, ConfigChange, ConfigResource, ConfigResourceType
from cordwood.client.admin.log_dirs import ReplicaLogDirs, TopicPartitionReplica
from cordwood.client.admin.results import settled
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, TopicNotFound, UnsupportedByBroker
from cordwood.client.offsets import OffsetSpec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import incremental_alter_configs
from cordwood.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from cordwood.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from cordwood.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from cordwood.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from cordwood.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from cordwood.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from cordwood.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from cordwood.wire.messages.list_offsets import ListOffsetsRequest
from cordwood.wire.messages.metadata import MetadataRequest
from tests.client.scripted_administration import ABSENT, P0, P1, admin_of
from tests.client.scripted_broker import ScriptedBroker, scripted_brokers
from tests.client.scripted_coordinators import Coordinators, run

# ---- to where it is known


def test_a_brokers_own_settings_are_read_and_changed_on_that_broker() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:

            def describe(request: DescribeConfigsRequest, version: int) -> DescribeConfigsResponse:
                results = [
                    DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
                    for asked in request.resources
                ]
                return DescribeConfigsResponse(results=results)

            def alter(request: IncrementalAlterConfigsRequest, version: int) -> IncrementalAlterConfigsResponse:
                responses = [
                    incremental_alter_configs.AlterConfigsResourceResponse(
                        resource_type=asked.resource_type, resource_name=asked.resource_name
                    )
                    for asked in request.resources
                ]
                return IncrementalAlterConfigsResponse(responses=responses)

            for broker in brokers:
                broker.answers[DescribeConfigsRequest.api_key] = describe
                broker.answers[IncrementalAlterConfigsRequest.api_key] = alter
            resources = [
                ConfigResource(ConfigResourceType.BROKER, "2"),
                ConfigResource(ConfigResourceType.BROKER_LOGGER, "2"),
                ConfigResource(ConfigResourceType.TOPIC, "t"),
                ConfigResource(ConfigResourceType.BROKER, ""),
            ]
            changes = {one: [ConfigChange("name", AlterOperation.SET, "value")] for one in resources}
            async with admin_of(brokers[0]) as admin:
                assert list(await admin.describe_configs(resources)) == resources
                await admin.incremental_alter_configs(changes)

            def names(broker: ScriptedBroker, kind: type[object]) -> list[list[str]]:
                return [[asked.resource_name for asked in one.resources] for one in broker.seen_of(kind)]

            assert ["2", "2"] in names(brokers[1], DescribeConfigsRequest)
            assert names(brokers[0], IncrementalAlterConfigsRequest) == [["t", ""]]
            assert names(brokers[1], IncrementalAlterConfigsRequest) == [["2", "2"]]

    run(main())


def test_records_are_deleted_by_leaders_with_retries() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:
            for broker in brokers:
                broker.leaders = [1, 2]
            moved = [ErrorCode.NOT_LEADER_OR_FOLLOWER]

            def answering(codes: list[ErrorCode], low_watermark: int) -> Callable[..., DeleteRecordsResponse]:
                def answer(request: DeleteRecordsRequest, version: int) -> DeleteRecordsResponse:
                    code = codes.pop() if codes else ErrorCode.NONE
                    partitions = [
                        DeleteRecordsPartitionResult(
                            partition_index=asked.partition_index, low_watermark=low_watermark, error_code=code
                        )
                        for asked in request.topics[0].partitions
                    ]
                    return DeleteRecordsResponse(topics=[DeleteRecordsTopicResult(name="t", partitions=partitions)])

                return answer

            brokers[0].answers[DeleteRecordsRequest.api_key] = answering([], 5)
            brokers[1].answers[DeleteRecordsRequest.api_key] = answering(moved, 7)
            missing = TopicPartition("nowhere", 0)
            async with admin_of(brokers[0]) as admin:
                outcomes = await settled(admin.delete_records({P0: 5, P1: 7, missing: 1}))
            assert (outcomes[P0], outcomes[P1]) == (5, 7)
            assert isinstance(outcomes[missing], TopicNotFound)
            # Brokers that have answered are not asked again.
            assert [len(broker.seen_of(DeleteRecordsRequest)) for broker in brokers] == [1, 2]

    run(main())


def test_members_are_taken_out_by_their_coordinator() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:
            Coordinators(brokers, default=2)
            loading = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

            def leave(request: LeaveGroupRequest, version: int) -> LeaveGroupResponse:
                if loading:
                    return LeaveGroupResponse(error_code=loading.pop())
                return LeaveGroupResponse(
                    members=[
                        MemberResponse(
                            member_id=member.member_id,
                            group_instance_id=member.group_instance_id,
                            error_code=ErrorCode.UNKNOWN_MEMBER_ID if member.member_id == "m2" else ErrorCode.NONE,
                        )
                        for member in request.members
                    ]
                )

            brokers[1].answers[LeaveGroupRequest.api_key] = leave
            async with admin_of(brokers[0]) as admin:
                with pytest.raises(BrokerError) as caught:
                    await admin.remove_members_from_consumer_group(
                        "g", instance_ids=["i1"], member_ids=["m1", "m2"], reason="why"
                    )
            assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
            outcomes = caught.value.outcomes
            assert (outcomes["i1"], outcomes["m1"], outcomes["m2"]) == (None, None, caught.value)
            asked = brokers[1].seen_of(LeaveGroupRequest)[-1]
            assert {member.reason for member in asked.members} == {"why"}

    run(main())


def test_current_and_target_directories_of_replicas_are_reported() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:

            def lying(path: str, size: int, lag: int, is_future: bool) -> DescribeLogDirsResult:
                partition = DescribeLogDirsPartition(
                    partition_index=0, partition_size=size, offset_lag=lag, is_future_key=is_future
                )
                return DescribeLogDirsResult(
                    log_dir=path, topics=[DescribeLogDirsTopic(name="t", partitions=[partition])]
                )

            broker.answers[DescribeLogDirsRequest.api_key] = lambda request, version: DescribeLogDirsResponse(
                results=[
                    lying("/a", 10, 0, False),
                    lying("/b", 4, 6, True),
                    DescribeLogDirsResult(log_dir="/c", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
                ]
            )
            replica = TopicPartitionReplica("t", 0, 1)
            async with admin_of(broker) as admin:
                assert (await admin.describe_replica_log_dirs([replica]))[replica] == ReplicaLogDirs("/a", 0, "/b", 6)
                dirs = (await admin.describe_log_dirs())[1]
            assert dirs["/a"].usable_bytes is None
            error = dirs["/c"].error
            assert error is not None
            assert error.code == ErrorCode.KAFKA_STORAGE_ERROR

    run(main())


# ---- brokers that are old


def test_topics_are_described_by_metadata_on_brokers_without_pagination() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[DescribeTopicPartitionsRequest.api_key] = ABSENT
            broker.leaders = [1, -1]
            async with admin_of(broker) as admin:
                described = await settled(admin.describe_topics(["t", "nowhere"]))
            topic = described["t"]
            assert not isinstance(topic, BrokerError)
            assert [partition.leader for partition in topic.partitions] == [1, None]
            assert topic.partitions[0].eligible_leader_replicas is None
            assert isinstance(described["nowhere"], TopicNotFound)
            assert not any(request.allow_auto_topic_creation for request in broker.seen_of(MetadataRequest))

    run(main())


@pytest.mark.parametrize(
    ("spec", "version"),
    [
        (OffsetSpec.MAX_TIMESTAMP, 6),
        (OffsetSpec.EARLIEST_LOCAL, 7),
        (OffsetSpec.LATEST_TIERED, 8),
        (OffsetSpec.EARLIEST_PENDING_UPLOAD, 10),
    ],
)
def test_an_offset_spec_unknown_to_a_broker_is_not_requested(spec: OffsetSpec, version: int) -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[ListOffsetsRequest.api_key] = version
            async with admin_of(broker) as admin:
                with pytest.raises(UnsupportedByBroker, match="ListOffsets"):
                    await admin.list_offsets({P0: spec})
            assert broker.seen_of(ListOffsetsRequest) == []

    run(main())


def test_fenced_brokers_are_not_requested_from_an_older_broker() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[DescribeClusterRequest.api_key] = 1
            broker.answers[DescribeClusterRequest.api_key] = lambda request, version: DescribeClusterResponse(
                cluster_id="c"
            )
            async with admin_of(broker) as admin:
                assert (await admin.describe_cluster()).id == "c"
                with pytest.raises(UnsupportedByBroker):
                    await admin.describe_cluster(include_fenced=True)

    run(main())
