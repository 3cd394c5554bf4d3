"""Changes of in-sync sets that the controller does not decide at first."""

from __future__ import annotations

import asyncio
from itertools import pairwise

from cordwood.broker.controller.channel import ControllerChannel
from cordwood.metadata.controller.error_response import error_response
from cordwood.net.api import RequestContext
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_partition import RequestTopicData
from cordwood.wire.schema import Request, ResponseT
from data_answers.batches import batch
from data_answers.requests import produce
from tests.common.three_brokers import ThreeBrokers, with_three_brokers


class Undecided:
    """The way to a controller that decides nothing until `decides` is set."""

    def __init__(self, channel: ControllerChannel) -> None:
        self.decides = False
        self.asked_at_s: list[float] = []
        self.last_topics: list[RequestTopicData] = []
        # Cleared to keep the broker waiting for an answer.
        self.answers = asyncio.Event()
        self.answers.set()
        self._channel = channel

    async def ask(self, request: Request[ResponseT], context: RequestContext | None = None) -> ResponseT:
        self.asked_at_s.append(asyncio.get_running_loop().time())
        self.last_topics = getattr(request, "topics", [])
        await self.answers.wait()
        if not self.decides:
            return error_response(request, ErrorCode.REQUEST_TIMED_OUT, type(request).stable_versions.high)
        return await self._channel.ask(request, context)


async def until_asked(cluster: ThreeBrokers, undecided: Undecided, times: int) -> None:
    await cluster.until(lambda: len(undecided.asked_at_s) >= times)


async def with_a_lagging_follower(cluster: ThreeBrokers) -> Undecided:
    """Broker 3 hangs; broker 1, which leads, is about to take it out of the in-sync set."""
    await cluster.create("t", 1)
    await cluster.create("u", 1)
    # It has fetched both, so that only records that it lacks make it lag.
    leaders = [cluster.partition(1, topic).leader for topic in ("t", "u")]
    await cluster.until(lambda: all(leader is not None and leader.followers[3].end_offset == 0 for leader in leaders))
    changes = cluster.broker(1).isr_changes
    undecided = changes._controller = Undecided(cluster.broker(1).controller)
    cluster.machines[3].pause()
    await cluster.ask(1, produce("t", batch("x"), acks=1), 9)
    return undecided


def test_a_change_of_the_in_sync_set_is_proposed_again_after_pauses_that_double() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        undecided = await with_a_lagging_follower(cluster)
        await until_asked(cluster, undecided, 9)
        pauses_s = [after - before for before, after in pairwise(undecided.asked_at_s)]
        assert 0.04 <= pauses_s[0] <= 0.06
        assert all(before < after for before, after in pairwise(pauses_s[:5]))
        assert all(0.79 <= pause_s <= 1.01 for pause_s in pauses_s[5:])

    with_three_brokers(test, replica_lag_time_max_ms="1000", broker_session_timeout_ms="60000")


def test_a_change_of_the_in_sync_set_is_proposed_to_a_new_controller_without_a_pause() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        undecided = await with_a_lagging_follower(cluster)
        await until_asked(cluster, undecided, 9)
        undecided.decides = True
        before_s = cluster.world.loop.time()
        # As when the broker learns of another controller.
        cluster.broker(1).isr_changes.wake()
        await until_asked(cluster, undecided, 10)
        assert undecided.asked_at_s[-1] - before_s < 0.001
        await cluster.until(lambda: cluster.partition(1, "t").state.isr == (1, 2))

    with_three_brokers(test, replica_lag_time_max_ms="1000", broker_session_timeout_ms="60000")


def test_a_change_that_is_not_decided_does_not_hold_up_that_of_another_partition() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        undecided = await with_a_lagging_follower(cluster)
        u = cluster.broker(1).topic_id("u")
        await until_asked(cluster, undecided, 9)
        await cluster.ask(1, produce("u", batch("x"), acks=1), 9)
        leader = cluster.partition(1, "u").leader
        assert leader is not None
        # No check is due while a proposal is in flight.
        await cluster.until(lambda: leader.next_lag_check_ms(cluster.world.clock.now_ms()) is None)
        assert any(topic.topic_id == u for topic in undecided.last_topics)

    with_three_brokers(test, replica_lag_time_max_ms="1000", broker_session_timeout_ms="60000")


def test_a_change_that_is_proposed_while_the_controller_is_asked_does_not_wait_for_the_pause_after_it() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        undecided = await with_a_lagging_follower(cluster)
        u = cluster.broker(1).topic_id("u")
        await until_asked(cluster, undecided, 8)
        undecided.answers.clear()
        await until_asked(cluster, undecided, 9)
        await cluster.ask(1, produce("u", batch("x"), acks=1), 9)
        leader = cluster.partition(1, "u").leader
        assert leader is not None
        await cluster.until(lambda: leader.next_lag_check_ms(cluster.world.clock.now_ms()) is None)
        assert not any(topic.topic_id == u for topic in undecided.last_topics)
        answered_s = cluster.world.loop.time()
        undecided.answers.set()
        await until_asked(cluster, undecided, 10)
        assert undecided.asked_at_s[-1] - answered_s < 0.001
        assert any(topic.topic_id == u for topic in undecided.last_topics)

    with_three_brokers(test, replica_lag_time_max_ms="1000", broker_session_timeout_ms="60000")
