"""Three schema registries over one replicated topic, and clients that register the same and different schemas through
all of them, while registries and brokers are killed, paused and cut off."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from cordwood.sim.checks import REGISTRY_CHECKS
from cordwood.sim.clients.client import Run
from cordwood.sim.cluster import Layout
from cordwood.sim.cluster_faults import ClusterFaults
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.watches.partition_watch import PartitionWatch
from cordwood.sim.watches.quorum_watch import QuorumWatch
from cordwood.sim.watches.replica_watch import ReplicaWatch
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.records import decode_batch

from .base import Workload
from .stage import Healing

if TYPE_CHECKING:
    from cordwood.sim.histories.registry import Contents
    from cordwood.sim.library.registry import RegistryClient, SimulatedRegistry

_DURATION_S = 15.0
_REGISTRIES = 3


def _layout(_source: Random) -> Layout:
    return Layout(controllers=3, brokers=3, is_combined=True)


def _settings(_history: History, source: Random) -> dict[str, str]:
    return {
        "broker.session.timeout.ms": source.choice(("2000", "6000")),
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": source.choice(("1500", "10000")),
        "replica.fetch.wait.max.ms": source.choice(("100", "500")),
        "replica.fetch.backoff.ms": "200",
        "transaction.state.log.num.partitions": "1",
        "log.cleaner.backoff.ms": "600",
        "log.roll.ms": source.choice(("2000", "600000")),
    }


async def _main(run: Run, source: Random) -> None:
    # The registry has extra dependencies, which other workloads don't need.
    from cordwood.sim.library.registry import TOPIC, RegistryClient, SimulatedRegistry

    cluster = run.cluster
    assert cluster is not None
    partitions = PartitionWatch(run.world, run.history.replicas)
    QuorumWatch(cluster, run.history.quorum, partitions)
    await cluster.start()
    run.partitions.append((TOPIC, 0))
    watch = ReplicaWatch(run, partitions)
    faults = ClusterFaults(run)
    registries = [SimulatedRegistry(run, f"registry-{number}") for number in range(_REGISTRIES)]
    clients = [RegistryClient(run, f"client-{number}", registries) for number in range(source.randint(3, 6))]
    work: list[Coroutine[Any, Any, None]] = [faults.work(), watch.work()]
    work += [each for registry in registries for each in (registry.work(), registry.trouble())]
    work += [client.work() for client in clients]
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(_DURATION_S)
    run.is_over = True
    await asyncio.gather(*tasks)
    run.is_over = False
    await faults.heal()
    await _judge(run, faults, watch, registries, clients[0])


async def _judge(
    run: Run,
    faults: ClusterFaults,
    watch: ReplicaWatch,
    registries: "list[SimulatedRegistry]",
    client: "RegistryClient",
) -> None:
    """After healing every registry restarts, takes a write, and is compared with the others and the topic."""
    from cordwood.sim.library.registry import contents_of

    cluster, history = run.cluster, run.history
    assert cluster is not None
    healing = Healing(run)
    if not await healing.all_start(faults, cluster.machines.values()):
        return
    lives = []
    for registry in registries:
        registry.is_calm = True
        lives.append(asyncio.ensure_future(registry.work()))
    for registry in registries:
        # Its answer is in its state, and so is everything written before.
        if not await healing.comes(partial(client.register, registry.name, f"last-{registry.name}", '"int"')):
            healing.fails(f"{registry.name} takes no schemas")
            return
    for registry in registries:
        assert registry.server is not None
        await registry.server.registry.replica.catch_up()
        history.registry.final[registry.name] = contents_of(registry.server.registry.state)
    history.registry.final["the topic"] = _contents_of_topic(run, watch)
    run.is_over = True
    await asyncio.gather(*lives)


def _contents_of_topic(run: Run, watch: ReplicaWatch) -> "Contents":
    """All records, committed or not, as if none of them were part of a transaction."""
    from cordwood.registry.state.state import State
    from cordwood.sim.library.registry import contents_of

    (partition,) = run.partitions
    log = next(replica.log for _, replica in watch.replicas(partition) if replica.leader is not None)
    assert log is not None
    state = State()
    position = log.start_offset
    while (there := log.read(position, 1 << 24, log.high_watermark)) is not None:
        data = there.read()
        for at, header in batch_headers(data):
            if not header.is_control:
                for record in decode_batch(data, at):
                    headers = {name: (value or b"").decode() for name, value in record.headers}
                    state.replay_bytes(record.key, record.value, headers)
            position = header.next_offset
        if position >= log.high_watermark:
            break
    return contents_of(state)


REGISTRY = Workload("registry", {Promise.REPLICATED: 1}, _settings, _main, REGISTRY_CHECKS, _layout)
