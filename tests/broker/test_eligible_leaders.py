"""Three brokers that die one after the other: the last replicas that had everything lead again (KIP-966)."""

from __future__ import annotations

import asyncio

from cordwood.metadata.image import NO_LEADER
from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.wire.errors import ErrorCode
from data_answers.batches import batch
from data_answers.requests import produce
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

TOO_FEW = {ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.REQUEST_TIMED_OUT}


def state(cluster: ThreeBrokers) -> PartitionState:
    found = cluster._image.topics.partition("t", 0)
    assert found is not None
    return found


async def send(cluster: ThreeBrokers, value: str, acks: int = -1, timeout_ms: int = 1_000) -> ErrorCode:
    request = produce("t", batch(value), acks=acks, timeout_ms=timeout_ms)
    response = await cluster.ask(cluster.leader("t"), request, 9)
    return ErrorCode(response.responses[0].partition_responses[0].error_code)


async def kill_all(cluster: ThreeBrokers) -> None:
    """One after the other, 1 first; each has acknowledged what could be by then."""
    await cluster.create("t", 1, min_insync_replicas="2")
    assert await send(cluster, "by all") == ErrorCode.NONE
    cluster.kill(1)
    assert await cluster.until_led("t", other_than=1) == 2
    assert await send(cluster, "by two") == ErrorCode.NONE
    cluster.kill(2)
    assert await cluster.until_led("t", other_than=2) == 3
    assert await send(cluster, "by none") in TOO_FEW
    cluster.kill(3)
    await cluster.until(lambda: cluster.leader("t") == NO_LEADER)


def test_the_in_sync_set_is_empty_once_the_last_replica_has_died_and_those_eligible_are_known() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await kill_all(cluster)
        found = state(cluster)
        assert found.isr == ()
        # 1 had left while there were enough others: it lacks what they acknowledged.
        assert set(found.elr) == {2, 3}

    with_three_brokers(test)


def test_replicas_that_were_killed_wait_for_each_other_and_the_last_leader_leads_again() -> None:
    """A killed replica may have lost what was in its page cache, so it is eligible no longer when it returns. Once none
    is, the last leader is elected: it has all there can be."""

    async def test(cluster: ThreeBrokers) -> None:
        await kill_all(cluster)
        for broker_id in (1, 2):
            await cluster.restart(broker_id)
            await asyncio.sleep(5)
            assert cluster.leader("t") == NO_LEADER
        assert state(cluster).elr == (3,)
        await cluster.restart(3)
        assert await cluster.until_led("t", other_than=NO_LEADER) == 3
        await cluster.until_in_sync("t")
        assert state(cluster).elr == ()
        assert await send(cluster, "afterwards") == ErrorCode.NONE
        values = await cluster.committed("t")
        assert values[:2] == [b"by all", b"by two"]
        assert values[-1] == b"afterwards"

    with_three_brokers(test)


def test_a_replica_that_was_stopped_in_order_is_eligible_and_leads_before_the_others_return() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1, min_insync_replicas="2")
        assert await send(cluster, "by all") == ErrorCode.NONE
        cluster.kill(1)
        assert await cluster.until_led("t", other_than=1) == 2
        assert await send(cluster, "by two") == ErrorCode.NONE
        await cluster.machines[2].stop()
        assert await cluster.until_led("t", other_than=2) == 3
        cluster.kill(3)
        await cluster.until(lambda: cluster.leader("t") == NO_LEADER)
        assert set(state(cluster).elr) == {2, 3}
        await cluster.restart(1)
        await asyncio.sleep(5)
        assert cluster.leader("t") == NO_LEADER
        await cluster.restart(2)
        assert await cluster.until_led("t", other_than=NO_LEADER) == 2
        await cluster.restart(3)
        await cluster.until_in_sync("t")
        assert await cluster.committed("t") == [b"by all", b"by two"]

    with_three_brokers(test)


def test_acks_all_time_out_when_the_in_sync_set_shrinks_below_the_minimum_after_the_append() -> None:
    """Kafka 4.3 answers so, too: the high watermark stalls then, so the in-sync set is not checked.
    NOT_ENOUGH_REPLICAS_AFTER_APPEND is left to an offset that was passed in the moment in which the set shrank."""

    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", 1, min_insync_replicas="3")
        assert await send(cluster, "by all") == ErrorCode.NONE
        cluster.machines[3].pause()
        pending = asyncio.create_task(send(cluster, "appended", timeout_ms=10_000))
        await cluster.until(lambda: set(state(cluster).isr) == {1, 2})
        assert not pending.done()
        assert await send(cluster, "refused") == ErrorCode.NOT_ENOUGH_REPLICAS
        assert await pending == ErrorCode.REQUEST_TIMED_OUT
        log = cluster.partition(1, "t").log
        assert log is not None
        assert (log.high_watermark, log.end_offset) == (1, 2)

    with_three_brokers(test, replica_lag_time_max_ms="2000", broker_session_timeout_ms="60000")
