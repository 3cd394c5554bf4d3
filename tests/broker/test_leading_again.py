"""A node that starts again leads what it led, and the metadata says so."""

from __future__ import annotations

import pytest
from simulated import SimulatedNode, simulate

from cordwood.metadata.image import LeaderRecovery


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

    simulate(test)
