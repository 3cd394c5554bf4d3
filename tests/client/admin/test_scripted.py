"""Requests of the admin client: changes of the cluster go to its controller."""

import asyncio
from dataclasses import replace

import pytest

from cordwood.client.admin.cluster import FeatureUpdate
from cordwood.client.admin.partitions import PartitionReassignment
from cordwood.client.admin.scram import ScramMechanism, ScramUpsertion
from cordwood.client.admin.tokens import DelegationToken
from cordwood.client.admin.topics import NewTopic
from cordwood.client.errors import BadSetting, BrokerError, TopicNotFound
from cordwood.sim.world import World
from cordwood.wire.errors import ErrorCode
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
from cordwood.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from cordwood.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from cordwood.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
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
from tests.client.scripted_administration import P0, P1, admin_of
from tests.client.scripted_broker import scripted_brokers
from tests.client.scripted_coordinators import run


def test_cluster_changes_follow_a_moving_controller() -> None:
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


def test_the_producer_waits_for_a_topic_that_brokers_discover_late() -> None:
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


def test_unneeded_elections_are_not_failures() -> None:
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


def test_moves_in_progress_are_reported() -> None:
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
def test_failed_feature_updates_are_explained_by_both_kinds_of_brokers(version: int, with_results: bool) -> None:
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
