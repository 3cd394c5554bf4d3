"""Producer ids: from blocks, none twice, whatever crashes."""

from __future__ import annotations

import asyncio

from cordwood.metadata.controller.producer_ids import BLOCK_SIZE
from cordwood.net.peers.channel import Channel
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.simulated import SimulatedNode, simulate

VERSION = 4


async def ask(channel: Channel) -> int:
    response = await channel.request(InitProducerIdRequest(transactional_id=None), VERSION)
    assert not response.error_code
    assert response.producer_epoch == 0
    return response.producer_id


def test_all_initial_requests_share_one_block() -> None:
    async def test(node: SimulatedNode) -> None:
        channels = [await node.connect() for _ in range(20)]
        ids = await asyncio.gather(*(ask(channel) for channel in channels for _ in range(5)))
        assert sorted(ids) == list(range(100))
        assert node.broker.image.next_producer_id == BLOCK_SIZE

    simulate(test)


def test_more_callers_than_ids_in_a_block_are_served() -> None:
    async def test(node: SimulatedNode) -> None:
        ids = await asyncio.gather(*(node.broker.producer_ids.wait() for _ in range(3 * BLOCK_SIZE + 1)))
        assert sorted(ids) == list(range(3 * BLOCK_SIZE + 1))

    simulate(test)


def test_the_next_block_is_there_before_one_is_used_up() -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await node.connect()
        taken = [await ask(channel)]
        while len(taken) < 3 * BLOCK_SIZE:
            producer_id = node.broker.producer_ids.take()
            assert producer_id is not None
            taken.append(producer_id)
            if len(taken) % BLOCK_SIZE == BLOCK_SIZE - 50:
                # The block was asked for a while ago: it has come.
                await asyncio.sleep(1)
        assert taken == list(range(3 * BLOCK_SIZE))

    simulate(test)


def test_no_id_is_given_out_twice_after_a_loss_of_power() -> None:
    async def test(node: SimulatedNode) -> None:
        given: list[int] = []
        for _ in range(4):
            channel = await node.connect()
            given += [await ask(channel) for _ in range(3)]
            node.machine.lose_power()
            assert await node.machine.start()
            node = SimulatedNode(node.world, node.machine)
        assert len(set(given)) == len(given)

    simulate(test)


def test_without_a_controller_there_is_no_id_yet() -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await node.connect()
        node.machine.disks["/data"].fail_next("append to")
        response = await channel.request(InitProducerIdRequest(transactional_id=None), VERSION)
        assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert response.producer_id == -1

    simulate(test)


def test_a_transactional_id_has_no_coordinator_until_the_first_look_up() -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await node.connect()
        request = InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=60_000)
        assert (await channel.request(request, VERSION)).error_code == ErrorCode.NOT_COORDINATOR

    simulate(test)
