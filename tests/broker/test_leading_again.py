"""A node that starts again leads what it led, and the metadata says so."""

from __future__ import annotations

import errno

import pytest

from cordwood.metadata.image import LeaderRecovery
from data_answers.batches import batch
from data_answers.requests import produce
from tests.broker.simulated import SimulatedNode, simulate


@pytest.mark.parametrize("ending", ["kill", "lose_power", "stop"])
def test_after_any_end_its_partitions_are_led_and_recovered(ending: str) -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create("t")
        if ending == "stop":
            await node.machine.stop()
        else:
            getattr(node.machine, ending)()
        assert await node.machine.start()
        state = SimulatedNode(node.world, node.machine).broker.image.topics.partition("t", 0)
        assert state is not None
        assert (state.leader, state.isr, state.leader_recovery) == (1, (1,), LeaderRecovery.RECOVERED)
        # Nobody wrote to it before, so there was nothing of it on the disk.
        channel = await SimulatedNode(node.world, node.machine).connect()
        response = await channel.request(produce("t", batch("a"), acks=-1), 9)
        (answer,) = response.responses[0].partition_responses
        assert (answer.error_code, answer.base_offset) == (0, 0)

    simulate(test)


def test_a_node_stops_though_its_disk_fails_it_then() -> None:
    async def main(node: SimulatedNode) -> None:
        await node.create("orders")
        node.machine.disks["/data"].fail_next("write", errno.ENOSPC)
        await node.machine.stop()
        assert not node.machine.is_up
        assert node.node.failure is not None

    simulate(main)
