"""The clients on three brokers, some of which die: they follow leaders and coordinators, and see what was cut off."""

from __future__ import annotations

import asyncio

import pytest

from cordwood.client.admin.groups import list_groups
from cordwood.client.admin.log_dirs import describe_log_dirs
from cordwood.client.admin.offsets import list_group_offsets
from cordwood.client.admin.results import values
from cordwood.client.admin.transactions import describe_producers, describe_transactions, list_transactions
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import LogTruncation
from cordwood.client.offset_types import OffsetAndMetadata
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

T0 = TopicPartition("t", 0)
# From the election of a new leader until clients have found it.
AT_ONCE_S = 1.0


def test_a_producer_finds_the_new_leader_at_once_and_writes_each_record_once_in_order() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1, min_insync_replicas="2")
        async with cluster.producer() as producer:
            sent = 0
            for _ in range(3):
                await cluster.until_in_sync("t")
                leader = cluster.leader("t")
                deliveries = [await producer.send("t", str(number).encode()) for number in range(sent, sent + 20)]
                sent += len(deliveries)
                cluster.kill(leader)
                await cluster.until_led("t", other_than=leader)
                elected_s = cluster.world.loop.time()
                await asyncio.gather(*deliveries)
                assert cluster.world.loop.time() < elected_s + AT_ONCE_S
                await cluster.restart(leader)
            assert await cluster.committed("t") == [str(number).encode() for number in range(sent)]

    with_three_brokers(test)


def test_a_consumer_continues_at_its_position_with_the_new_leader() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1, min_insync_replicas="2")
        seen: list[bytes | None] = []
        async with cluster.producer() as producer, cluster.consumer("t", group_id="g") as consumer:
            for number in range(4):
                await (await producer.send("t", str(number).encode()))
                found_s = cluster.world.loop.time()
                while len(seen) == number:
                    for records in (await consumer.getmany(timeout_ms=50)).values():
                        seen += [record.value for record in records]
                if number:
                    assert cluster.world.loop.time() < found_s + AT_ONCE_S
                await cluster.until_in_sync("t")
                leader = cluster.leader("t")
                cluster.kill(leader)
                await cluster.until_led("t", other_than=leader)
                await cluster.restart(leader)
        assert seen == [b"0", b"1", b"2", b"3"]

    with_three_brokers(test)


@pytest.mark.parametrize("reset", ["none", "earliest", "latest"])
def test_records_lost_in_an_unclean_election_raise_log_truncation(reset: str) -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1, unclean_leader_election_enable="true")
        async with (
            cluster.producer(acks=1, enable_idempotence=False) as producer,
            cluster.consumer(auto_offset_reset=reset) as consumer,
        ):
            await (await producer.send("t", b"kept"))
            await cluster.until_replicated("t")
            consumer.assign([T0])
            consumer.seek(T0, 0)
            for broker_id in (2, 3):
                cluster.kill(broker_id)
            for _ in range(3):
                await (await producer.send("t", b"lost"))
            while await consumer.position(T0) < 4:
                await consumer.getmany(timeout_ms=100)
            cluster.kill(1)
            await cluster.restart(2)
            await cluster.restart(3)
            await cluster.until_led("t", other_than=1)
            await (await producer.send("t", b"new"))
            if reset == "none":
                with pytest.raises(LogTruncation) as raised:
                    await consumer.getone()
                assert raised.value.divergent_offsets == {T0: 1}
            else:
                # From the first record that is not what was read.
                assert (await consumer.getone()).value == b"new"

    with_three_brokers(test)


def test_admin_asks_the_brokers_that_know() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1, 2, 3)
        groups = [f"g{number}" for number in range(6)]
        ids = [f"tx{number}" for number in range(6)]
        for group_id in groups:
            async with cluster.consumer(group_id=group_id) as consumer:
                await consumer.commit({T0: OffsetAndMetadata(1)})
        for transactional_id in ids:
            producer = await cluster.transactional(transactional_id)
            await producer.begin_transaction()
            for index in range(3):
                await (await producer.send("t", b"x", partition=index))
            await producer.close(timeout=0)
        partitions = [TopicPartition("t", index) for index in range(3)]
        async with await cluster.client() as client:

            async def check() -> None:
                assert [group.id for group in await list_groups(client)] == groups
                assert [each.transactional_id for each in await list_transactions(client)] == ids
                assert values(await describe_transactions(client, ids)).keys() == set(ids)
                assert values(await list_group_offsets(client, groups)).keys() == set(groups)
                producers = values(await describe_producers(client, partitions))
                assert [len(producers[partition]) for partition in partitions] == 3 * [len(ids)]

            await check()
            assert {group.coordinator for group in await list_groups(client)} == {1, 2, 3}
            assert (await describe_log_dirs(client)).keys() == {1, 2, 3}
            # Before the controller has noticed: its groups and transactions are found on the others.
            cluster.kill(2)
            await check()
            assert (await describe_log_dirs(client)).keys() == {1, 3}

    with_three_brokers(test, transaction_max_timeout_ms="900000")
