"""Fetchers of running brokers: how many, how much at once, and partitions that fail beside others that don't."""

from __future__ import annotations

import asyncio

import pytest

from cordwood.replica.fetcher import Fetcher
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchResponse
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from data_answers.batches import batch
from data_answers.requests import produce
from tests.common.simulated_cluster import Cluster, with_cluster

BROKER = 4
PARTITIONS = 8
ALL = range(PARTITIONS)
LOG = "00000000000000000000.log"


async def write(cluster: Cluster, index: int, records: bytes | bytearray, node: int = 1, acks: int = -1) -> int:
    """The base offset."""
    response = await cluster.ask(node, produce("t", records, partition=index, acks=acks), 9)
    (answer,) = response.responses[0].partition_responses
    assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    return answer.base_offset


def size_bytes(cluster: Cluster, node: int, index: int) -> int:
    log = cluster.partition(node, "t", index).log
    return 0 if log is None else sum(segment.size for segment in log.segments)


async def until_copied(cluster: Cluster, node: int, *indexes: int) -> None:
    await cluster.until(
        lambda: all(size_bytes(cluster, node, index) == size_bytes(cluster, 1, index) for index in indexes),
        f"for copies of {indexes}",
    )
    for index in indexes:
        assert cluster.contents(node, "t", index) == cluster.contents(1, "t", index)


def fetchers(cluster: Cluster, node: int) -> set[int]:
    """The numbers of those that follow broker 1."""
    return {number for leader, number in cluster.broker(node).fetchers._fetchers if leader == 1}


async def resize(cluster: Cluster, count: int) -> None:
    setting = AlterableConfig(name="num.replica.fetchers", config_operation=0, value=str(count))
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[setting])
    response = await cluster.control(IncrementalAlterConfigsRequest(resources=[resource]))
    assert not response.responses[0].error_code, response


def test_the_partitions_of_a_leader_are_shared_by_as_many_fetchers_as_configured_also_after_a_change() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2, 3)] * PARTITIONS)
        assert fetchers(cluster, 2) == {0, 1}
        for round_number, count in enumerate((3, 1, 2)):
            await resize(cluster, count)
            await cluster.until(lambda count=count: fetchers(cluster, 2) == set(range(count)))  # type: ignore[misc]
            for index in ALL:
                # Acknowledged by all replicas: each is followed by one of the fetchers.
                assert await write(cluster, index, batch("x")) == round_number
        for node in (2, 3):
            await until_copied(cluster, node, *ALL)

    with_cluster(test, num_replica_fetchers="2")


def test_a_fetch_of_a_follower_that_is_far_behind_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    partition_max_bytes, response_max_bytes, batch_bytes = 20_000, 50_000, 5_100
    responses: list[list[int]] = []
    take = Fetcher._take

    def measured(fetcher: Fetcher, response: FetchResponse) -> None:
        sizes = [len(answer.records or b"") for topic in response.responses for answer in topic.partitions]
        responses.append(sizes)
        take(fetcher, response)

    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2, 3)] * PARTITIONS)
        cluster.machines[3].kill()
        for index in ALL:
            for _ in range(20):
                await write(cluster, index, batch("x" * 5_000), acks=1)
        monkeypatch.setattr(Fetcher, "_take", measured)
        await until_copied(cluster, 2, *ALL)
        responses.clear()
        assert await cluster.start_node(3)
        await until_copied(cluster, 3, *ALL)

    with_cluster(
        test,
        replica_fetch_max_bytes=str(partition_max_bytes),
        replica_fetch_response_max_bytes=str(response_max_bytes),
    )
    assert max(map(sum, responses)) > partition_max_bytes
    assert all(size <= partition_max_bytes for sizes in responses for size in sizes)
    # The bound is not exceeded: no batch is larger than what a partition may have.
    assert all(sum(sizes) <= response_max_bytes + batch_bytes for sizes in responses)


def test_corrupt_bytes_of_a_leader_are_never_appended_and_are_fetched_again_beside_sound_partitions() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2, 3)] * PARTITIONS)
        cluster.machines[3].kill()
        for index in ALL:
            for number in range(4):
                await write(cluster, index, batch(f"value {number}"), acks=1)
        await cluster.until_isr(1, 2)
        disk = cluster.machines[1].disks["/data"]
        sound = cluster.contents(1)
        # In the third of four batches.
        damaged_at = len(sound) * 5 // 8
        disk.damage(f"t-0/{LOG}", sound[:damaged_at] + bytes([sound[damaged_at] ^ 0xFF]) + sound[damaged_at + 1 :])
        assert await cluster.start_node(3)
        others = [index for index in ALL if index != 0]
        await until_copied(cluster, 3, *others)
        for _ in range(3):
            # The fetcher of the damaged partition continues with the others.
            for index in others:
                await write(cluster, index, batch("more"))
            await until_copied(cluster, 3, *others)
            await asyncio.sleep(5)
            assert size_bytes(cluster, 3, 0) in (0, len(sound) // 2)
            assert sound.startswith(cluster.contents(3) if size_bytes(cluster, 3, 0) else b"")
        assert 3 not in cluster.state().isr
        disk.damage(f"t-0/{LOG}", sound)
        await until_copied(cluster, 3, 0)
        await cluster.until_isr(1, 2, 3)

    with_cluster(test, num_replica_fetchers="1")


def test_a_wiped_replica_of_a_compacted_topic_has_the_leaders_batches_and_producers() -> None:
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": "1000",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.jitter.ms": "0",
    }

    def keyed(number: int) -> bytearray:
        return batch(f"v{number}", keys=[f"k{number % 2}"], producer_id=7, epoch=0, sequence=number)

    async def test(cluster: Cluster) -> None:
        await cluster.create(replicas=[(1, 2, 3)], configs=configs)
        for number in range(20):
            await write(cluster, 0, keyed(number))
            await asyncio.sleep(1.1)
        written_bytes = 20 * len(keyed(0))
        await cluster.until(lambda: size_bytes(cluster, 1, 0) < written_bytes // 2, "for compaction")
        cluster.machines[3].kill()
        cluster.wipe(3)
        assert await cluster.start_node(3)
        await cluster.until_isr(1, 2, 3)
        # The copied records had been compacted; its own cleaner leaves it as it is.
        assert size_bytes(cluster, 3, 0) < written_bytes // 2
        for node in (1, 3):
            assert cluster.log(node).end_offset == 20
            [producer] = cluster.log(node).producers.before(20)
            assert (producer.producer_id, producer.epoch, producer.last_sequence) == (7, 0, 19)

    with_cluster(test, log_cleaner_backoff_ms="500", log_message_timestamp_type="LogAppendTime")
