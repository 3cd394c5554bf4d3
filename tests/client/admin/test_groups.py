"""The admin client on a real cluster: the cluster itself, groups and transactions."""

import asyncio
from functools import partial

import pytest
from confluent_kafka import Consumer, Producer

from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import FeatureUpdate, UpgradeType
from cordwood.client.admin.log_dirs import TopicPartitionReplica
from cordwood.client.admin.results import failures_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.offsets import OffsetSpec
from cordwood.wire.errors import ErrorCode
from tests.client.administering import Administer, becomes, fill, make

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


def test_features_are_reported_with_current_levels(administer: Administer) -> None:
    async def level(admin: Admin) -> int | None:
        return next(feature.finalized for feature in await admin.describe_features() if feature.name == "group.version")

    async def work(admin: Admin) -> None:
        await becomes(partial(level, admin), 1)
        await admin.update_features({"group.version": FeatureUpdate(0, UpgradeType.SAFE_DOWNGRADE)})
        await becomes(partial(level, admin), None)
        await admin.update_features({"group.version": FeatureUpdate(1)})
        await becomes(partial(level, admin), 1)

    administer(work)


def test_a_broker_that_never_was_cannot_be_unregistered(administer: Administer) -> None:
    async def work(admin: Admin) -> None:
        with pytest.raises(BrokerError) as caught:
            await admin.unregister_broker(4_711)
        assert caught.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED

    administer(work)


def test_log_directories_show_where_replicas_are(administer: Administer, topic: str) -> None:
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


def test_an_open_transaction_is_reported_and_fenced(administer: Administer, bootstrap: str, topic: str) -> None:
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
