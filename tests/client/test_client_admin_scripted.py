"""Where the admin client's requests go, and what it does when brokers fail it or are old."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from scripted_broker import IMPATIENT, ScriptedBroker, scripted_brokers
from scripted_coordinators import Coordinators, run

from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import FeatureUpdate
from cordwood.client.admin.configs import AlterOperation, ConfigChange, ConfigResource, ConfigResourceType
from cordwood.client.admin.log_dirs import ReplicaLogDirs, TopicPartitionReplica
from cordwood.client.admin.partitions import PartitionReassignment
from cordwood.client.admin.results import settled
from cordwood.client.admin.scram import ScramMechanism, ScramUpsertion
from cordwood.client.admin.tokens import DelegationToken
from cordwood.client.admin.topics import NewTopic
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BadSetting, BrokerError, TopicNotFound, UnsupportedByBroker
from cordwood.client.offsets import OffsetSpec
from cordwood.client.settings import AdminSettings
from cordwood.runtime.network import Network
from cordwood.runtime.sockets import SocketNetwork
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import incremental_alter_configs
from cordwood.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from cordwood.wire.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from cordwood.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
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
from cordwood.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from cordwood.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from cordwood.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from cordwood.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from cordwood.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from cordwood.wire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from cordwood.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from cordwood.wire.messages.list_offsets import ListOffsetsRequest
from cordwood.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from cordwood.wire.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from cordwood.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from cordwood.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
ABSENT = -1
"""The newest version of an API that a broker does not have."""


def admin_of(broker: ScriptedBroker, network: Network | None = None) -> Admin:
    settings = AdminSettings(
        bootstrap_servers=(broker.address,),
        retry_backoff_ms=IMPATIENT.retry_backoff_ms,
        retry_backoff_max_ms=IMPATIENT.retry_backoff_max_ms,
        reconnect_backoff_ms=IMPATIENT.reconnect_backoff_ms,
        reconnect_backoff_max_ms=IMPATIENT.reconnect_backoff_max_ms,
        default_api_timeout_ms=IMPATIENT.default_api_timeout_ms,
    )
    return Admin(settings, network=SocketNetwork() if network is None else network)


# ---- to the controller


def test_what_changes_the_cluster_follows_the_controller() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:

            def refuse(request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
                for broker in brokers:
                    broker.controller = 2
                return CreateTopicsResponse(
                    topics=[CreatableTopicResult(name="new", error_code=ErrorCode.NOT_CONTROLLER)]
                )

            brokers[0].answers[CreateTopicsRequest.api_key] = refuse
            brokers[1].answers[CreateTopicsRequest.api_key] = lambda request, version: CreateTopicsResponse(
                topics=[CreatableTopicResult(name="new", num_partitions=3, replication_factor=2)]
            )
            async with admin_of(brokers[0]) as admin:
                created = await admin.create_topics([NewTopic("new", 3, 2)])
            assert created["new"].partitions == 3
            assert [len(broker.seen_of(CreateTopicsRequest)) for broker in brokers] == [1, 1]

    run(main())


def test_a_topic_that_brokers_hear_of_late_is_waited_for() -> None:
    world = World(1, limit_s=60)

    async def main() -> None:
        async with scripted_brokers(1, world) as [broker]:
            loop = asyncio.get_running_loop()
            known = broker.answers[MetadataRequest.api_key]
            # Longer than a client looks for a topic that it knows nothing of.
            heard_at = loop.time() + 5.0

            def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
                if request.topics and loop.time() < heard_at:
                    unknown = MetadataResponseTopic(name="t", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    return replace_topics(known(request, version), [unknown])
                answer: MetadataResponse = known(request, version)
                return answer

            broker.answers[MetadataRequest.api_key] = metadata
            async with admin_of(broker, world.network.host("client")) as admin:
                with pytest.raises(TopicNotFound):
                    await admin.client.topics(["t"])
                await admin.until_topics_led(["t"])
            assert loop.time() >= heard_at

    world.run(main())


def replace_topics(response: MetadataResponse, topics: list[MetadataResponseTopic]) -> MetadataResponse:
    response.topics = topics
    return response


def test_leaders_that_were_not_needed_are_no_failure() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            results = [
                PartitionResult(partition_id=0),
                PartitionResult(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED),
            ]
            broker.answers[ElectLeadersRequest.api_key] = lambda request, version: ElectLeadersResponse(
                replica_election_results=[ReplicaElectionResult(topic="t", partition_result=results)]
            )
            async with admin_of(broker) as admin:
                assert await admin.elect_leaders([P0, P1]) == [P0]
                await admin.elect_leaders()
            first, second = broker.seen_of(ElectLeadersRequest)
            assert [(topic.topic, topic.partitions) for topic in first.topic_partitions] == [("t", [0, 1])]
            assert second.topic_partitions is None

    run(main())


def test_moves_of_partitions_that_are_under_way_are_told() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            moving = OngoingPartitionReassignment(
                partition_index=0, replicas=[1, 2], adding_replicas=[2], removing_replicas=[1]
            )
            broker.answers[ListPartitionReassignmentsRequest.api_key] = lambda request, version: (
                ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="t", partitions=[moving])])
            )
            async with admin_of(broker) as admin:
                assert await admin.list_partition_reassignments() == {P0: PartitionReassignment((1, 2), (2,), (1,))}
                await admin.list_partition_reassignments([P0, P1])
            everything, some = broker.seen_of(ListPartitionReassignmentsRequest)
            assert everything.topics is None
            assert [(topic.name, topic.partition_indexes) for topic in some.topics] == [("t", [0, 1])]

    run(main())


@pytest.mark.parametrize(("version", "with_results"), [(1, True), (2, False)])
def test_why_a_feature_was_not_updated_is_told_by_brokers_of_both_kinds(version: int, with_results: bool) -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[UpdateFeaturesRequest.api_key] = version
            result = UpdatableFeatureResult(feature="f", error_code=ErrorCode.INVALID_UPDATE_VERSION)
            broker.answers[UpdateFeaturesRequest.api_key] = lambda request, version: UpdateFeaturesResponse(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, results=[result] if with_results else []
            )
            async with admin_of(broker) as admin:
                with pytest.raises(BrokerError) as caught:
                    await admin.update_features({"f": FeatureUpdate(9)}, validate_only=True)
            assert caught.value.code == ErrorCode.INVALID_UPDATE_VERSION
            assert broker.seen_of(UpdateFeaturesRequest)[0].validate_only

    run(main())


def test_a_password_is_salted_and_hashed_before_it_is_sent() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.answers[AlterUserScramCredentialsRequest.api_key] = lambda request, version: (
                AlterUserScramCredentialsResponse(results=[AlterUserScramCredentialsResult(user="alice")])
            )
            upsertion = ScramUpsertion("alice", ScramMechanism.SCRAM_SHA_256, b"pencil", 4096, b"salt")
            async with admin_of(broker) as admin:
                await admin.alter_user_scram_credentials([upsertion])
                await admin.alter_user_scram_credentials([replace(upsertion, salt=None)])
            told, salted = (request.upsertions[0] for request in broker.seen_of(AlterUserScramCredentialsRequest))
            assert told.salt == b"salt"
            # As openssl kdf says it: PBKDF2 with digest:SHA256 pass:pencil salt:salt iter:4096.
            assert (
                bytes(told.salted_password).hex() == "0997564f292923271312698037b6b0a06a8be7fbd912480847c5a1ace4b8d1c7"
            )
            assert len(salted.salt) >= 16
            assert salted.salted_password != told.salted_password

    run(main())


def test_a_token_is_created_and_described() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.answers[CreateDelegationTokenRequest.api_key] = lambda request, version: (
                CreateDelegationTokenResponse(
                    principal_type="User",
                    principal_name="alice",
                    token_requester_principal_type="User",
                    token_requester_principal_name="admin",
                    issue_timestamp_ms=1,
                    expiry_timestamp_ms=2,
                    max_timestamp_ms=3,
                    token_id="id",
                    hmac=b"hmac",
                )
            )
            described = DescribedDelegationToken(
                principal_type="User",
                principal_name="alice",
                token_requester_principal_type="User",
                token_requester_principal_name="admin",
                issue_timestamp=1,
                expiry_timestamp=2,
                max_timestamp=3,
                token_id="id",
                hmac=b"hmac",
                renewers=[DescribedDelegationTokenRenewer(principal_type="User", principal_name="bob")],
            )
            broker.answers[DescribeDelegationTokenRequest.api_key] = lambda request, version: (
                DescribeDelegationTokenResponse(tokens=[described])
            )
            token = DelegationToken("id", b"hmac", "User:alice", "User:admin", 1, 2, 3, ("User:bob",))
            async with admin_of(broker) as admin:
                assert await admin.create_delegation_token(owner="User:alice", renewers=["User:bob"]) == token
                assert await admin.describe_delegation_tokens(["User:alice"]) == [token]
                with pytest.raises(BadSetting, match="User:alice"):
                    await admin.describe_delegation_tokens(["alice"])
            (created,) = broker.seen_of(CreateDelegationTokenRequest)
            assert (created.owner_principal_type, created.owner_principal_name) == ("User", "alice")
            assert [(one.principal_type, one.principal_name) for one in created.renewers] == [("User", "bob")]
            (asked,) = broker.seen_of(DescribeDelegationTokenRequest)
            assert [(one.principal_type, one.principal_name) for one in asked.owners] == [("User", "alice")]

    run(main())


def test_a_token_is_renewed_and_ended() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.answers[RenewDelegationTokenRequest.api_key] = lambda request, version: RenewDelegationTokenResponse(
                expiry_timestamp_ms=request.renew_period_ms + 100
            )
            broker.answers[ExpireDelegationTokenRequest.api_key] = lambda request, version: (
                ExpireDelegationTokenResponse(expiry_timestamp_ms=request.expiry_time_period_ms + 200)
            )
            async with admin_of(broker) as admin:
                assert await admin.renew_delegation_token(b"hmac", period_ms=7) == 107
                assert await admin.expire_delegation_token(b"hmac") == 199
            assert [request.hmac for request in broker.seen_of(RenewDelegationTokenRequest)] == [b"hmac"]

    run(main())


# ---- to where it is known


def test_a_brokers_own_settings_are_asked_of_it_and_changed_there() -> None:
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


def test_records_are_deleted_by_leaders_and_what_fails_for_a_moment_is_asked_again() -> None:
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
            # Who has answered is not asked again.
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


def test_where_a_replica_lies_and_where_it_goes_are_told() -> None:
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


def test_topics_are_described_by_metadata_where_there_are_no_pages() -> None:
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
def test_a_place_that_a_broker_does_not_know_is_not_asked_for(spec: OffsetSpec, version: int) -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[ListOffsetsRequest.api_key] = version
            async with admin_of(broker) as admin:
                with pytest.raises(UnsupportedByBroker, match="ListOffsets"):
                    await admin.list_offsets({P0: spec})
            assert broker.seen_of(ListOffsetsRequest) == []

    run(main())


def test_fenced_brokers_are_not_asked_of_a_broker_that_cannot_tell() -> None:
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
