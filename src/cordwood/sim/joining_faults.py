"""A fault at the worst moment: a broker loses power while a leader has it join an in-sync set.

The leader's proposal names the broker as it was before. It reaches the controller only when the broker is back, without
its unsynced data; only the broker epoch of the earlier start distinguishes the two (KIP-903).
"""

import asyncio
from collections.abc import Callable
from random import Random

from cordwood.sim.clients.client import Run
from cordwood.sim.cluster import CONTROLLER_PORT
from cordwood.sim.cluster_faults import ClusterFaults
from cordwood.sim.machine import PORT, Machine
from cordwood.sim.watches.replica_watch import ReplicaWatch

# The share of runs in which disks may be lost.
_CHANCE = 0.5
_BEFALLS = 0.3
# Proposals are in flight for some milliseconds.
_LOOK_S = 0.002
_MAX_START_S = 3.0
_MAX_DECISION_S = 1.0


class JoiningFaults:
    def __init__(self, run: Run, faults: ClusterFaults, watch: ReplicaWatch) -> None:
        assert run.cluster is not None
        self._run = run
        self._cluster = run.cluster
        self._faults = faults
        self._watch = watch
        self._source: Random = run.world.random("joining")
        self._is_on = faults.disks_may_go and self._source.random() < _CHANCE

    async def work(self) -> None:
        while self._is_on and not self._run.is_over:
            await asyncio.sleep(_LOOK_S)
            joining = self._joining()
            if joining is not None and self._source.random() < _BEFALLS:
                await self._befall(*joining)

    def _joining(self) -> tuple[Machine, Machine] | None:
        """A leader, and a broker that it has proposed for the in-sync set."""
        for partition in self._run.partitions:
            for node_id, replica in self._watch.replicas(partition):
                if replica.leader is None:
                    continue
                for joining in sorted(replica.leader.maximal_isr.difference(replica.leader.isr)):
                    machine = self._cluster.machines[joining]
                    if machine.is_started and not machine.is_stopping:
                        return self._cluster.machines[node_id], machine
        return None

    async def _befall(self, leader: Machine, joining: Machine) -> None:
        if not self._faults.lose_what_is_not_synced(joining):
            return
        network = self._run.world.network
        for controller in self._cluster.controllers.values():
            if controller is not leader:
                network.block(leader.name, controller.name, CONTROLLER_PORT)
        # It cannot fetch before the proposal has been decided.
        network.block(joining.name, leader.name, PORT)
        self._faults.start_again(joining)
        await self._pause(_MAX_START_S, until=lambda: joining.is_started)
        network.unblock(leader.name)
        await self._pause(_MAX_DECISION_S, until=lambda: not joining.is_started)
        network.unblock(joining.name)

    async def _pause(self, seconds: float, until: Callable[[], bool]) -> None:
        until_s = self._run.now_s + seconds
        while self._run.now_s < until_s and not until() and not self._run.is_over:
            await asyncio.sleep(_LOOK_S)
