"""Limits on replication (KIP-73)."""

from __future__ import annotations

import asyncio

import pytest

from cordwood.broker.lost_leaders import LostLeaders
from cordwood.net.peers.peer import Peer
from cordwood.net.peers.settings import ConnectionSettings
from cordwood.replica.fetcher import Fetcher, FetcherSettings
from cordwood.replica.throttle import ReplicationThrottle
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from data_answers.batches import batch
from data_answers.requests import produce
from tests.common.simulated_cluster import Cluster, with_cluster
from tests.replica.partitions import BROKER, OTHER, disk, partition_on, state

_BROKER = 4
_RECORD_BYTES = 10_000


class SteppedClock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def test_a_debt_is_paid_off_at_the_rate() -> None:
    clock = SteppedClock()
    throttle = ReplicationThrottle(clock, 1_000)
    exceeded = [throttle.is_exceeded]
    throttle.record(3_000)
    exceeded.append(throttle.is_exceeded)
    assert throttle.resumes_in_ms == 2_001
    for seconds in (1.9, 0.2):
        clock.sleep(seconds)
        exceeded.append(throttle.is_exceeded)
    assert exceeded == [False, True, True, False]


@pytest.mark.parametrize("reading_s", [0.0, 0.3, 0.7, 1.1])
def test_a_partition_that_is_held_up_is_fetched_once_the_throttle_is_over(reading_s: float) -> None:
    """Time may pass between any two readings of it."""

    class Creeping(SteppedClock):
        def monotonic(self) -> float:
            self.now_s += reading_s
            return self.now_s

    async def test() -> None:
        clock, random = Creeping(), SeededRandom(1)
        throttle = ReplicationThrottle(clock, 1_000)
        throttle.record(3_000)
        fetcher = Fetcher(
            OTHER,
            FetcherSettings(BROKER, 500, 1, 1 << 20, 10 << 20, 30_000),
            lambda: 0,
            lambda: Peer(SocketNetwork(), ConnectionSettings(client_id="fetcher"), random),
            clock,
            throttle,
            lambda _error: None,
            LostLeaders(),
        )
        partition = partition_on(disk(), lambda _partition: None, follower_replication_throttled_replicas="*")
        partition.update(state(leader=OTHER, epoch=1, replicas=(BROKER, OTHER)), partition.config)
        key = (partition.topic_id, partition.index)
        fetcher.follow(partition)
        while key not in fetcher._session.positions:
            assert key in fetcher._unsettled or key in fetcher._backing_off
            fetcher._settle()
            clock.sleep(0.1)
        assert not throttle.is_exceeded
        await fetcher.stop()

    asyncio.run(test())


async def limit(cluster: Cluster, key: str, bytes_per_second: int) -> None:
    """For all brokers."""
    setting = AlterableConfig(name=key, config_operation=0, value=str(bytes_per_second))
    resource = AlterConfigsResource(resource_type=_BROKER, resource_name="", configs=[setting])
    response = await cluster.control(IncrementalAlterConfigsRequest(resources=[resource]))
    assert not response.responses[0].error_code, response


async def write(cluster: Cluster, acks: int = -1) -> None:
    response = await cluster.ask(1, produce("t", batch("x" * _RECORD_BYTES), acks=acks), 9)
    assert not response.responses[0].partition_responses[0].error_code


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_catches_up_is_held_to_the_rate_and_one_in_sync_is_not(side: str) -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(configs={f"{side}.replication.throttled.replicas": "*"})
        cluster.machines[3].kill()
        await cluster.until_isr(1, 2)
        for _ in range(20):
            await write(cluster)
        await limit(cluster, f"{side}.replication.throttled.rate", 2 * _RECORD_BYTES)
        began_s = cluster.world.loop.time()
        assert await cluster.start_node(3)
        await write(cluster)
        assert cluster.world.loop.time() - began_s < 3, "node 2 is in sync, and takes records as before"
        await cluster.until_isr(1, 2, 3)
        # 200,000 bytes at 20,000 a second, of which a second's worth goes at once.
        assert 7 < cluster.world.loop.time() - began_s < 20

    with_cluster(test, replica_fetch_max_bytes=str(2 * _RECORD_BYTES))


def test_a_replica_that_begins_to_follow_while_the_limit_is_exceeded_follows_afterwards() -> None:
    async def test(cluster: Cluster) -> None:
        rate = "follower.replication.throttled.rate"
        await limit(cluster, rate, _RECORD_BYTES)
        await cluster.until(lambda: cluster.broker(3).config.integer(rate) == _RECORD_BYTES)
        throttle = cluster.broker(3).follower_throttle
        throttle.record(5 * _RECORD_BYTES)
        assert throttle.is_exceeded
        await cluster.create(configs={"follower.replication.throttled.replicas": "*"})
        await write(cluster, acks=1)
        await cluster.until(lambda: cluster.partition(2).follower is not None and cluster.log(2).end_offset == 1)
        assert throttle.is_exceeded
        await cluster.until(lambda: cluster.log(3).end_offset == 1, "for a replica that was held up")
        assert cluster.state().isr == (1, 2, 3), "it was back before it counted as out of sync"

    with_cluster(test)


def test_replicas_that_are_not_named_are_not_throttled() -> None:
    async def test(cluster: Cluster) -> None:
        await cluster.create(configs={"leader.replication.throttled.replicas": "0:2,1:1"})
        cluster.machines[3].kill()
        await cluster.until_isr(1, 2)
        for _ in range(20):
            await write(cluster)
        await limit(cluster, "leader.replication.throttled.rate", _RECORD_BYTES)
        began_s = cluster.world.loop.time()
        assert await cluster.start_node(3)
        await cluster.until_isr(1, 2, 3)
        assert cluster.world.loop.time() - began_s < 5

    with_cluster(test)
