"""The admin client on a real cluster: topics, offsets and configurations."""

import asyncio
from functools import partial

import pytest

from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import (
    AlterOperation,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
)
from cordwood.client.admin.partitions import TO_HIGH_WATERMARK, ElectionType
from cordwood.client.admin.results import failures_of, settled
from cordwood.client.admin.topics import CreatedTopic, NewPartitions, NewTopic
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, ClientError, Closed, TopicNotFound
from cordwood.client.offsets import OffsetSpec
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode
from tests.client.administering import Administer, becomes, fill, make, settings

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


def test_validate_only_changes_nothing(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)
        assert topic not in await admin.list_topics()
        await make(admin, topic)
        await admin.create_partitions({topic: 2}, validate_only=True)
        assert len((await admin.describe_topics([topic]))[topic].partitions) == 1

    administer(work)


def test_a_failure_carries_all_outcomes(administer: Administer, topic: str) -> None:
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
        assert first.replicas == first.isr
        assert first.replicas[0] == first.leader
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


def test_new_partitions_are_placed_as_requested(administer: Administer, topic: str) -> None:
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


def test_a_missing_partition_does_not_cost_the_others(administer: Administer, topic: str) -> None:
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


def test_a_missing_resource_does_not_cost_the_others(administer: Administer, topic: str) -> None:
    async def work(admin: Admin) -> None:
        await make(admin, topic)
        there, missing = (ConfigResource(ConfigResourceType.TOPIC, name) for name in (topic, "not-there"))
        described = await settled(admin.describe_configs([there, missing], ["cleanup.policy"]))
        assert isinstance(described[missing], TopicNotFound)
        entries = described[there]
        assert not isinstance(entries, BrokerError)
        assert [entry.name for entry in entries] == ["cleanup.policy"]

    administer(work)


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
