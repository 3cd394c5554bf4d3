"""What the admin client does with a cluster: a node of our own, or Kafka with CORDWOOD_TEST_KAFKA=host:port."""

import asyncio
import os
import uuid
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

import cordwood.testing
from cordwood import aio
from cordwood.client.addresses import parse_bootstrap
from cordwood.client.admin.acls import Acl, AclFilter, AclOperation, AclResourceType
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import FeatureUpdate, UpgradeType
from cordwood.client.admin.configs import (
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from cordwood.client.admin.log_dirs import TopicPartitionReplica
from cordwood.client.admin.partitions import TO_HIGH_WATERMARK, ElectionType
from cordwood.client.admin.quotas import QuotaEntity, QuotaName
from cordwood.client.admin.results import failures_of, settled
from cordwood.client.admin.scram import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion
from cordwood.client.admin.topics import CreatedTopic, NewPartitions, NewTopic
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, ClientError, Closed, TopicNotFound, UnsupportedByBroker
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.offsets import OffsetSpec
from cordwood.client.settings import AdminSettings
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode

KAFKA = os.environ.get("CORDWOOD_TEST_KAFKA")
Work = Callable[[Admin], Coroutine[Any, Any, None]]

kafka_only = pytest.mark.skipif(KAFKA is None, reason="our brokers do not have this yet; CORDWOOD_TEST_KAFKA has")
cordwood_only = pytest.mark.skipif(KAFKA is not None, reason="what our brokers do not have yet")


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    if KAFKA is not None:
        yield KAFKA
        return
    with cordwood.testing.node() as node:
        yield node.bootstrap


@pytest.fixture
def topic() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def group() -> str:
    return f"g-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def administer(bootstrap: str) -> Callable[[Work], None]:
    def run(work: Work) -> None:
        async def main() -> None:
            async with asyncio.timeout(60), Admin(settings(bootstrap), network=SocketNetwork()) as admin:
                await work(admin)

        asyncio.run(main())

    return run


Administer = Callable[[Work], None]


def settings(bootstrap: str) -> AdminSettings:
    return AdminSettings(bootstrap_servers=tuple(parse_bootstrap(bootstrap)), default_api_timeout_ms=30_000)


async def make(admin: Admin, topic: str, partitions: int = 1) -> None:
    await admin.create_topics([NewTopic(topic, partitions, 1)])
    await admin.until_topics_led([topic])


async def fill(admin: Admin, topic: str, timestamps: list[int], partition: int = 0) -> None:
    """A batch a record."""
    bootstrap = [str(address) for address in admin.client.settings.bootstrap_servers]
    async with aio.Producer(bootstrap_servers=bootstrap, linger_ms=0) as producer:
        for timestamp in timestamps:
            await producer.send_and_wait(topic, b"value", b"key", partition=partition, timestamp_ms=timestamp)


async def becomes(ask: Callable[[], Coroutine[Any, Any, object]], expected: object) -> None:
    """Brokers hear of what the controller decided a moment later."""
    async with asyncio.timeout(20):
        while (found := await ask()) != expected:
            # Seen when the time is over.
            print(f"not yet: {found}")
            await asyncio.sleep(0.05)


# ---- topics


def test_topics_are_created_listed_grown_and_deleted(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        created = await admin.create_topics([NewTopic(topic, 2, 1, {"retention.ms": "1000"})])
        await admin.until_topics_led([topic])
        assert (created[topic].partitions, created[topic].replication_factor) == (2, 1)
        listed = await admin.list_topics()
        assert (listed[topic].id, len(listed[topic].partitions)) == (created[topic].id, 2)
        await admin.create_partitions({topic: 3})
        await admin.until_topics_led([topic], 3)
        await admin.delete_topics([topic])
        await admin.until_topics_gone([topic])
        assert topic not in await admin.list_topics(internal=True)

    administer(work)


def test_what_is_only_validated_is_not_done(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)
        assert topic not in await admin.list_topics()
        await make(admin, topic)
        await admin.create_partitions({topic: 2}, validate_only=True)
        assert len((await admin.describe_topics([topic]))[topic].partitions) == 1

    administer(work)


def test_a_failure_carries_what_became_of_all(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        other = f"{topic}-other"
        with pytest.raises(BrokerError) as caught:
            await admin.create_topics([NewTopic(topic, 1, 1), NewTopic(other, 1, 1), NewTopic("a/b", 1, 1)])
        assert caught.value.code == ErrorCode.TOPIC_ALREADY_EXISTS
        outcomes = caught.value.outcomes
        assert isinstance(outcomes[other], CreatedTopic)
        assert outcomes["a/b"].code == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert any("INVALID_TOPIC_EXCEPTION" in note for note in caught.value.__notes__)
        await admin.until_topics_led([other])
        failed = await failures_of(admin.delete_topics([other, "not-there"]))
        assert {name: error.code for name, error in failed.items()} == {
            "not-there": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }
        with pytest.raises(TopicNotFound):
            await admin.delete_topics(["not-there"])

    administer(work)


def test_a_topic_is_described_page_by_page(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic, 5)
        other = f"{topic}-other"
        await make(admin, other, 2)
        described = await admin.describe_topics([other, topic], partitions_per_page=2)
        assert list(described) == [other, topic]
        assert [partition.index for partition in described[topic].partitions] == [0, 1, 2, 3, 4]
        assert [partition.index for partition in described[other].partitions] == [0, 1]
        first = described[topic].partitions[0]
        assert first.replicas == first.isr == (first.leader,)
        assert described == await admin.describe_topics([other, topic])
        found = await settled(admin.describe_topics([topic, "not-there"]))
        assert found[topic] == described[topic]
        assert isinstance(found["not-there"], TopicNotFound)

    administer(work)


def test_topics_are_described_and_deleted_by_their_ids(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        created = (await admin.create_topics([NewTopic(topic, 2, 1)]))[topic]
        await admin.until_topics_led([topic])
        described = (await admin.describe_topics_by_id([created.id]))[created.id]
        assert (described.name, len(described.partitions)) == (topic, 2)
        await admin.delete_topics([created.id])
        await admin.until_topics_gone([topic])
        with pytest.raises(BrokerError) as caught:
            await admin.describe_topics_by_id([created.id])
        assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_ID
        failed = await failures_of(admin.delete_topics([created.id]))
        assert failed[created.id].code == ErrorCode.UNKNOWN_TOPIC_ID

    administer(work)


def test_new_partitions_are_placed_where_told(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        broker = (await admin.describe_cluster()).brokers[0].id
        await admin.create_topics([NewTopic(topic, replicas=[[broker]])])
        await admin.until_topics_led([topic])
        await admin.create_partitions({topic: NewPartitions(2, [[broker]])})
        await admin.until_topics_led([topic], 2)
        partitions = (await admin.describe_topics([topic]))[topic].partitions
        assert [partition.replicas for partition in partitions] == [(broker,), (broker,)]

    administer(work)


# ---- offsets and records


def test_offsets_are_listed_by_place_and_by_time(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        await fill(admin, topic, [1_000, 3_000, 2_000])
        partition = TopicPartition(topic, 0)

        async def offset(wanted: int, *, read_committed: bool = False) -> int:
            return (await admin.list_offsets({partition: wanted}, read_committed=read_committed))[partition].offset

        assert await offset(OffsetSpec.EARLIEST) == 0
        assert await offset(OffsetSpec.LATEST) == 3
        assert await offset(OffsetSpec.LATEST, read_committed=True) == 3
        assert await offset(OffsetSpec.MAX_TIMESTAMP) == 1
        assert await offset(OffsetSpec.EARLIEST_LOCAL) == 0
        assert await offset(OffsetSpec.LATEST_TIERED) == -1
        assert await offset(1_500) == 1
        assert await offset(3_001) == -1

    administer(work)


def test_a_partition_that_is_not_there_does_not_cost_the_others(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        wanted = [TopicPartition(topic, 0), TopicPartition(topic, 7), TopicPartition("not-there", 0)]
        found = await settled(admin.list_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST)))
        assert list(found) == wanted
        there, *missing = found.values()
        assert not isinstance(there, BrokerError)
        assert there.offset == 0
        assert [type(error) for error in missing] == [TopicNotFound, TopicNotFound]

    administer(work)


def test_records_are_deleted_up_to_an_offset(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic, 2)
        await fill(admin, topic, [1, 2, 3])
        await fill(admin, topic, [1, 2], partition=1)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        assert await admin.delete_records({first: 2, second: TO_HIGH_WATERMARK}) == {first: 2, second: 2}
        starts = await admin.list_offsets(dict.fromkeys((first, second), OffsetSpec.EARLIEST))
        assert [start.offset for start in starts.values()] == [2, 2]
        with pytest.raises(BrokerError) as caught:
            await admin.delete_records({first: 9, second: 2})
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert caught.value.outcomes[second] == 2

    administer(work)


def test_no_leader_is_elected_where_the_right_one_leads(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        assert await admin.elect_leaders([TopicPartition(topic, 0)]) == []
        assert await admin.elect_leaders([TopicPartition(topic, 0)], election=ElectionType.UNCLEAN) == []
        with pytest.raises(TopicNotFound):
            await admin.elect_leaders([TopicPartition("not-there", 0)])

    administer(work)


# ---- configurations


def test_single_settings_are_changed_and_others_stay(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topics([NewTopic(topic, 1, 1, {"retention.ms": "1000", "segment.ms": "5000"})])
        await admin.until_topics_led([topic])
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        changes = [
            ConfigChange("retention.ms", AlterOperation.DELETE),
            ConfigChange("cleanup.policy", AlterOperation.APPEND, "compact"),
        ]
        await admin.incremental_alter_configs({resource: changes}, validate_only=True)
        assert await values_of(admin, resource) == {"retention.ms": "1000", "segment.ms": "5000"}
        await admin.incremental_alter_configs({resource: changes})
        changed = {"cleanup.policy": "delete,compact", "segment.ms": "5000"}
        await becomes(partial(values_of, admin, resource), changed)
        with pytest.raises(BrokerError) as caught:
            await admin.incremental_alter_configs({resource: [ConfigChange("segment.ms", AlterOperation.SET, "x")]})
        assert caught.value.code == ErrorCode.INVALID_CONFIG

    administer(work)


def test_all_settings_are_replaced(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topics([NewTopic(topic, 1, 1, {"retention.ms": "1000"})])
        await admin.until_topics_led([topic])
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        await admin.alter_configs({resource: {"segment.ms": "7000"}})
        replaced = {"segment.ms": "7000"}
        await becomes(partial(values_of, admin, resource), replaced)

    administer(work)


async def values_of(admin: Admin, resource: ConfigResource) -> dict[str, str | None]:
    """Those that were set on a topic."""
    entries = (await admin.describe_configs([resource]))[resource]
    return {entry.name: entry.value for entry in entries if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG}


async def value_of(admin: Admin, resource: ConfigResource, name: str) -> str | None:
    entries = (await admin.describe_configs([resource], [name]))[resource]
    return entries[0].value if entries else None


def test_settings_of_every_kind_of_resource_are_described(administer: Administer, topic: str, group: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        broker = str((await admin.describe_cluster()).brokers[0].id)
        metrics = ConfigResource(ConfigResourceType.CLIENT_METRICS, f"m-{topic}")
        of_group = ConfigResource(ConfigResourceType.GROUP, group)
        await admin.incremental_alter_configs(
            {
                metrics: [ConfigChange("interval.ms", AlterOperation.SET, "60000")],
                of_group: [ConfigChange("consumer.session.timeout.ms", AlterOperation.SET, "50000")],
            }
        )
        resources = [
            ConfigResource(ConfigResourceType.TOPIC, topic),
            ConfigResource(ConfigResourceType.BROKER, broker),
            ConfigResource(ConfigResourceType.BROKER, ""),
            ConfigResource(ConfigResourceType.BROKER_LOGGER, broker),
            metrics,
            of_group,
        ]
        await becomes(partial(value_of, admin, of_group, "consumer.session.timeout.ms"), "50000")
        await becomes(partial(value_of, admin, metrics, "interval.ms"), "60000")
        described = await admin.describe_configs(resources)
        assert list(described) == resources
        names = {resource: {entry.name: entry.value for entry in entries} for resource, entries in described.items()}
        assert names[resources[0]]["cleanup.policy"] == "delete"
        assert "log.retention.hours" in names[resources[1]]
        assert "root" in names[resources[3]]
        listed = await admin.list_config_resources([ConfigResourceType.CLIENT_METRICS, ConfigResourceType.GROUP])
        assert metrics in listed
        assert of_group in listed
        assert resources[0] not in listed
        assert resources[0] in await admin.list_config_resources()

    administer(work)


def test_a_resource_that_is_not_there_does_not_cost_the_others(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        there, missing = (ConfigResource(ConfigResourceType.TOPIC, name) for name in (topic, "not-there"))
        described = await settled(admin.describe_configs([there, missing], ["cleanup.policy"]))
        assert isinstance(described[missing], TopicNotFound)
        entries = described[there]
        assert not isinstance(entries, BrokerError)
        assert [entry.name for entry in entries] == ["cleanup.policy"]

    administer(work)


# ---- the cluster


def test_the_cluster_its_controllers_and_quorum_are_described(administer: Administer) -> None:
    async def work(admin: Admin) -> None:
        cluster = await admin.describe_cluster(include_fenced=True)
        quorum = await admin.describe_metadata_quorum()
        assert cluster.id == admin.client.cluster.id
        assert cluster.controller in {broker.id for broker in cluster.brokers}
        assert quorum.leader in {voter.id for voter in quorum.voters}
        if quorum.controllers:
            controllers = await admin.describe_controllers()
            assert controllers.id == cluster.id
            assert controllers.controller == quorum.leader
            assert {node.id for node in controllers.brokers} == set(quorum.controllers)

    administer(work)


def test_features_are_described_and_updates_checked(administer: Administer) -> None:
    async def work(admin: Admin) -> None:
        features = {feature.name: feature for feature in await admin.describe_features()}
        version = features["metadata.version"]
        assert version.finalized is not None
        assert version.min_supported <= version.finalized <= version.max_supported
        group_version = features["group.version"]
        update = FeatureUpdate(group_version.max_supported)
        await admin.update_features({"group.version": update}, validate_only=True)
        with pytest.raises(BrokerError):
            await admin.update_features({"metadata.version": FeatureUpdate(version.max_supported + 1)})

    administer(work)


def test_a_feature_is_told_as_it_is_now(administer: Administer) -> None:
    async def level(admin: Admin) -> int | None:
        return next(feature.finalized for feature in await admin.describe_features() if feature.name == "share.version")

    async def work(admin: Admin) -> None:
        await becomes(partial(level, admin), 1)
        await admin.update_features({"share.version": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)})
        await becomes(partial(level, admin), None)
        await admin.update_features({"share.version": FeatureUpdate(1)})
        await becomes(partial(level, admin), 1)

    administer(work)


def test_a_broker_that_never_was_cannot_be_unregistered(administer: Administer) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises(BrokerError) as caught:
            await admin.unregister_broker(4_711)
        assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED

    administer(work)


def test_log_directories_tell_where_replicas_lie(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic, 2)
        await fill(admin, topic, [1])
        partition = TopicPartition(topic, 0)
        ((broker, dirs),) = (await admin.describe_log_dirs()).items()
        (path,) = [path for path, found in dirs.items() if partition in found.replicas]
        assert dirs[path].error is None
        assert dirs[path].replicas[partition].size_bytes > 0
        only = await admin.describe_log_dirs([broker], [partition])
        assert [list(found.replicas) for found in only[broker].values()] == [[partition]]
        replica, missing = (TopicPartitionReplica(name, 0, broker) for name in (topic, "not-there"))
        placed = await admin.describe_replica_log_dirs([replica, missing])
        assert (placed[replica].current, placed[replica].future) == (path, None)
        assert placed[missing].current is None
        await admin.alter_replica_log_dirs({replica: path})
        with pytest.raises(BrokerError) as caught:
            await admin.alter_replica_log_dirs({replica: "/nowhere"})
        assert caught.value.code == ErrorCode.LOG_DIR_NOT_FOUND

    administer(work)


# ---- groups


def test_offsets_of_a_group_are_altered_listed_and_deleted(administer: Administer, topic: str, group: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic, 2)
        first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
        committed = {first: OffsetAndMetadata(5, "note", 3), second: OffsetAndMetadata(7)}
        await admin.alter_consumer_group_offsets(group, committed)
        assert await admin.list_consumer_group_offsets([group], require_stable=True) == {group: committed}
        (listed,) = [found for found in await admin.list_consumer_groups(states=["Empty"]) if found.id == group]
        assert listed.state == "Empty"
        assert group not in {found.id for found in await admin.list_groups(states=["Stable"])}
        described = (await admin.describe_consumer_groups([group]))[group]
        assert (described.state, described.members) == ("Empty", ())
        await admin.delete_consumer_group_offsets(group, [first])
        assert await admin.list_consumer_group_offsets([group]) == {group: {second: OffsetAndMetadata(7)}}
        await admin.delete_consumer_groups([group])
        failed = await failures_of(admin.delete_consumer_groups([group]))
        assert failed[group].code == ErrorCode.GROUP_ID_NOT_FOUND
        with pytest.raises(BrokerError) as caught:
            await admin.describe_consumer_groups([group])
        assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND

    administer(work)


@pytest.mark.parametrize("instance", [None, "static-1"])
def test_members_are_described_and_taken_out_of_their_group(
    administer: Administer, bootstrap: str, topic: str, group: str, instance: str | None
) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        configuration = {"bootstrap.servers": bootstrap, "group.id": group, "session.timeout.ms": 45_000}
        consumer = Consumer(configuration | ({} if instance is None else {"group.instance.id": instance}))
        consumer.subscribe([topic])
        try:
            while not consumer.assignment():
                await asyncio.to_thread(consumer.poll, 0.1)
            described = (await admin.describe_consumer_groups([group]))[group]
            (member,) = described.members
            assert described.is_active
            assert (member.instance_id, member.assignment) == (instance, (TopicPartition(topic, 0),))
            # Nobody polls any more: it does not come back.
            with pytest.raises(BrokerError) as caught:
                await admin.remove_members_from_consumer_group(group, instance_ids=["nobody"])
            assert caught.value.code == ErrorCode.UNKNOWN_MEMBER_ID
            if instance is None:
                await admin.remove_members_from_consumer_group(group, reason="a test")
            else:
                await admin.remove_members_from_consumer_group(group, instance_ids=[instance])
            left = (await admin.describe_consumer_groups([group]))[group]
            assert member.id not in {found.id for found in left.members}
        finally:
            await asyncio.to_thread(consumer.close)

    administer(work)


# ---- transactions


def test_an_open_transaction_is_told_and_fenced(administer: Administer, bootstrap: str, topic: str) -> None:
    transactional_id = f"x-{topic}"

    async def work(admin: Admin) -> None:
        await make(admin, topic)
        partition = TopicPartition(topic, 0)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
        await asyncio.to_thread(producer.init_transactions, 30)
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        await asyncio.to_thread(producer.flush, 30)

        described = (await admin.describe_transactions([transactional_id]))[transactional_id]
        assert (described.state, described.partitions) == ("Ongoing", (partition,))
        (listed,) = [one for one in await admin.list_transactions() if one.transactional_id == transactional_id]
        assert listed.producer_id == described.producer_id
        (active,) = (await admin.describe_producers([partition]))[partition]
        assert (active.producer_id, active.txn_start_offset) == (described.producer_id, 0)
        (opened,) = await admin.list_open_transactions([partition])
        owner = (await admin.find_transaction_owners([opened]))[opened]
        assert owner == described
        committed = await admin.list_offsets({partition: OffsetSpec.LATEST}, read_committed=True)
        assert committed[partition].offset == 0

        taken = (await admin.fence_producers([transactional_id]))[transactional_id]
        assert (taken.producer_id, taken.producer_epoch) > (described.producer_id, described.producer_epoch)
        assert await admin.list_open_transactions([partition]) == []
        described = (await admin.describe_transactions([transactional_id]))[transactional_id]
        assert described.state in ("Empty", "CompleteAbort")

    administer(work)


def test_a_transaction_that_hangs_is_aborted_in_its_partition(
    administer: Administer, bootstrap: str, topic: str
) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        partition = TopicPartition(topic, 0)
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"x-{topic}"})
        await asyncio.to_thread(producer.init_transactions, 30)
        producer.begin_transaction()
        producer.produce(topic, b"value", partition=0)
        await asyncio.to_thread(producer.flush, 30)
        (opened,) = await admin.list_open_transactions([partition])
        await admin.abort_transaction(opened)
        assert await admin.list_open_transactions([partition]) == []
        await admin.fence_producers([f"x-{topic}"])

    administer(work)


# ---- what only some brokers have


@cordwood_only
def test_what_a_broker_does_not_have_is_said_so(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        acl = Acl(AclResourceType.TOPIC, topic, "User:alice", AclOperation.READ)
        for call in (
            admin.list_partition_reassignments(),
            admin.alter_partition_reassignments({TopicPartition(topic, 0): [1]}),
            admin.describe_acls(),
            admin.create_acls([acl]),
            admin.delete_acls([AclFilter()]),
            admin.describe_client_quotas(),
            admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1.0}}),
            admin.describe_user_scram_credentials(),
            admin.alter_user_scram_credentials([ScramDeletion("alice", ScramMechanism.SCRAM_SHA_256)]),
            admin.create_delegation_token(),
            admin.renew_delegation_token(b"hmac"),
            admin.expire_delegation_token(b"hmac"),
            admin.describe_delegation_tokens(),
        ):
            with pytest.raises(UnsupportedByBroker, match="the broker has no "):
                await call

    administer(work)


@kafka_only
def test_partitions_are_reassigned(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        partition = TopicPartition(topic, 0)
        (broker,) = (broker.id for broker in (await admin.describe_cluster()).brokers)
        await admin.alter_partition_reassignments({partition: [broker]})
        assert await admin.list_partition_reassignments([partition]) == {}
        with pytest.raises(BrokerError) as caught:
            await admin.alter_partition_reassignments({partition: None})
        assert caught.value.code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
        with pytest.raises(BrokerError) as caught:
            await admin.alter_partition_reassignments({partition: [4_711]})
        assert caught.value.code == ErrorCode.INVALID_REPLICA_ASSIGNMENT

    administer(work)


@kafka_only
def test_quotas_are_set_described_and_removed(administer: Administer, topic: str) -> None:
    user = f"user-{topic}"

    async def work(admin: Admin) -> None:
        own, default = QuotaEntity(user=user), QuotaEntity(user=user, client_id=QuotaName.DEFAULT)
        await admin.alter_client_quotas({own: {"producer_byte_rate": 1024.0}, default: {"consumer_byte_rate": 2048.0}})
        both = {own: {"producer_byte_rate": 1024.0}, default: {"consumer_byte_rate": 2048.0}}
        await becomes(partial(admin.describe_client_quotas, {"user": user}), both)
        assert list(await admin.describe_client_quotas({"user": user}, strict=True)) == [own]
        assert own in await admin.describe_client_quotas({"user": QuotaName.ANY})
        await admin.alter_client_quotas({own: {"producer_byte_rate": None}, default: {"consumer_byte_rate": None}})
        await becomes(partial(admin.describe_client_quotas, {"user": user}), {})
        with pytest.raises(BrokerError) as caught:
            await admin.alter_client_quotas({own: {"no_such_quota": 1.0}})
        assert caught.value.code == ErrorCode.INVALID_REQUEST

    administer(work)


@kafka_only
def test_acls_are_created_described_and_deleted(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        read = Acl(AclResourceType.TOPIC, topic, "User:alice", AclOperation.READ)
        write = replace(read, operation=AclOperation.WRITE)
        try:
            await admin.create_acls([read, write])
        except BrokerError as error:
            if error.code == ErrorCode.SECURITY_DISABLED:
                pytest.skip("this Kafka has no authorizer")
            raise
        wanted = AclFilter(resource_name=topic)
        try:
            await becomes(partial(acls_of, admin, wanted), {read, write})
            assert await admin.describe_acls(replace(wanted, operation=AclOperation.READ)) == [read]
        finally:
            deleted = await admin.delete_acls([wanted])
        assert set(deleted[wanted]) == {read, write}
        await becomes(partial(acls_of, admin, wanted), set())

    administer(work)


async def acls_of(admin: Admin, wanted: AclFilter) -> set[Acl]:
    return set(await admin.describe_acls(wanted))


@kafka_only
def test_credentials_are_set_described_and_deleted(administer: Administer, topic: str) -> None:
    user = f"user-{topic}"

    async def work(admin: Admin) -> None:
        await admin.alter_user_scram_credentials(
            [
                ScramUpsertion(user, ScramMechanism.SCRAM_SHA_256, b"secret"),
                ScramUpsertion(f"{user}-2", ScramMechanism.SCRAM_SHA_512, b"secret", iterations=8192),
            ]
        )
        await becomes(
            partial(credentials_of, admin, {user, f"{user}-2"}),
            {
                user: [ScramCredential(ScramMechanism.SCRAM_SHA_256, 4096)],
                f"{user}-2": [ScramCredential(ScramMechanism.SCRAM_SHA_512, 8192)],
            },
        )
        await admin.alter_user_scram_credentials(
            [
                ScramDeletion(user, ScramMechanism.SCRAM_SHA_256),
                ScramDeletion(f"{user}-2", ScramMechanism.SCRAM_SHA_512),
            ]
        )
        await becomes(partial(credentials_of, admin, {user, f"{user}-2"}), {})
        with pytest.raises(BrokerError) as caught:
            await admin.describe_user_scram_credentials([user])
        assert caught.value.code == ErrorCode.RESOURCE_NOT_FOUND

    administer(work)


@kafka_only
def test_tokens_are_refused_over_connections_without_authentication(administer: Administer) -> None:
    async def work(admin: Admin) -> None:
        refusals = (ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
        for call in (
            admin.create_delegation_token(owner="User:alice", renewers=["User:bob"]),
            admin.renew_delegation_token(b"hmac"),
            admin.expire_delegation_token(b"hmac"),
            admin.describe_delegation_tokens(["User:alice"]),
        ):
            with pytest.raises(BrokerError) as caught:
                await call
            assert caught.value.code in refusals

    administer(work)


async def credentials_of(admin: Admin, users: set[str]) -> dict[str, list[ScramCredential]]:
    everybody = await admin.describe_user_scram_credentials()
    return {user: found for user, found in everybody.items() if user in users}


# ---- its life


def test_it_connects_with_its_first_call_and_not_after_it_is_closed(bootstrap: str) -> None:
    async def main() -> None:
        admin = Admin(settings(bootstrap), network=SocketNetwork())
        with pytest.raises(ClientError, match="not connected"):
            _ = admin.client
        first, second = await asyncio.gather(admin.describe_cluster(), admin.list_topics())
        assert first.id == admin.client.cluster.id
        assert isinstance(second, dict)
        await admin.close()
        await admin.close()
        with pytest.raises(Closed):
            await admin.list_topics()

    asyncio.run(main())
