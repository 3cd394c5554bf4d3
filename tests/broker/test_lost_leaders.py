"""Clients that ask for a leader or coordinator that has just died get the next one with the first answer."""

from __future__ import annotations

import asyncio

from cordwood.broker.lost_leaders import PATIENCE_S
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

VICTIM, WITNESS = 1, 2
METADATA_VERSION, FIND_VERSION = 12, 3


async def named_leader(cluster: ThreeBrokers) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    response = await cluster.ask(WITNESS, request, METADATA_VERSION)
    return response.topics[0].partitions[0].leader_id


async def kill_unnoticed(cluster: ThreeBrokers) -> None:
    """Returns when the witness has lost the victim. The controller notices nothing before `unblock`."""
    [controller] = cluster.controllers.values()
    cluster.world.network.block(cluster.machines[VICTIM].name, controller.name)
    cluster.kill(VICTIM)
    await cluster.until(lambda: cluster.broker(WITNESS).lost_leaders.are_undecided([VICTIM]))
    assert cluster.leader("t") == VICTIM


def test_metadata_names_the_next_leader_although_the_controller_has_not_decided_yet() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", VICTIM)
        await cluster.until_in_sync("t")
        await kill_unnoticed(cluster)
        asking = asyncio.ensure_future(named_leader(cluster))
        await asyncio.sleep(PATIENCE_S / 10)
        assert not asking.done()
        cluster.world.network.unblock()
        assert await asking not in (VICTIM, -1)

    with_three_brokers(test)


def test_find_coordinator_names_the_next_coordinator_although_the_controller_has_not_decided_yet() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("__consumer_offsets", VICTIM)
        await cluster.create("t", VICTIM)
        await cluster.until_in_sync("__consumer_offsets")
        await kill_unnoticed(cluster)
        request = FindCoordinatorRequest(key="group", key_type=0)
        asking = asyncio.ensure_future(cluster.ask(WITNESS, request, FIND_VERSION))
        await asyncio.sleep(PATIENCE_S / 10)
        assert not asking.done()
        cluster.world.network.unblock()
        found = await asking
        assert not found.error_code
        assert found.node_id not in (VICTIM, -1)

    with_three_brokers(test)


def test_a_leader_that_has_only_lost_a_connection_is_named_once_it_is_back() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", VICTIM)
        await cluster.until_in_sync("t")
        broker = cluster.broker(WITNESS)
        broker.lost_leaders.lost(VICTIM)
        began = asyncio.get_running_loop().time()
        assert await named_leader(cluster) == VICTIM
        assert not broker.lost_leaders.are_undecided([VICTIM])
        assert asyncio.get_running_loop().time() - began < PATIENCE_S

    with_three_brokers(test)


def test_a_leader_that_cannot_be_reached_by_one_broker_is_waited_for_only_once() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", VICTIM)
        await cluster.until_in_sync("t")
        loop = asyncio.get_running_loop()
        lost_leaders = cluster.broker(WITNESS).lost_leaders
        # Its fetches do not answer any more, so that only this test says what becomes of it.
        cluster.world.network.block(cluster.machines[VICTIM].name, cluster.machines[WITNESS].name)
        lost_leaders.lost(VICTIM)
        began = loop.time()
        assert await named_leader(cluster) == VICTIM
        assert loop.time() - began >= PATIENCE_S
        lost_leaders.lost(VICTIM)
        began = loop.time()
        assert await named_leader(cluster) == VICTIM
        assert loop.time() - began < PATIENCE_S

    with_three_brokers(test)
