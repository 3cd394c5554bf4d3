"""Brokers that fail are named in Metadata for a while, so that clients have time to ask for their coordinators."""

from __future__ import annotations

import asyncio

from cordwood.broker.departures import NAMED_FOR_S
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tests.common.three_brokers import ThreeBrokers, with_three_brokers

VERSION = 12
VICTIM, WITNESS = 1, 2


async def metadata(cluster: ThreeBrokers) -> MetadataResponse:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    return await cluster.ask(WITNESS, request, VERSION)


def named(response: MetadataResponse) -> set[int]:
    return {broker.node_id for broker in response.brokers}


async def until_fenced(cluster: ThreeBrokers) -> None:
    await cluster.until(lambda: cluster.broker(WITNESS).image.brokers[VICTIM].fenced)


def test_a_broker_that_failed_is_named_for_a_while_and_leads_nothing() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", VICTIM)
        cluster.kill(VICTIM)
        await until_fenced(cluster)
        found = await metadata(cluster)
        assert named(found) == {1, 2, 3}
        [partition] = found.topics[0].partitions
        assert partition.leader_id != VICTIM
        assert partition.offline_replicas == [VICTIM]
        await asyncio.sleep(NAMED_FOR_S)
        assert named(await metadata(cluster)) == {2, 3}

    with_three_brokers(test)


def test_a_broker_that_shut_down_in_order_is_not_named_any_more() -> None:
    async def test(cluster: ThreeBrokers) -> None:
        await cluster.create("t", VICTIM)
        await cluster.machines[VICTIM].stop()
        await until_fenced(cluster)
        assert named(await metadata(cluster)) == {2, 3}

    with_three_brokers(test)
