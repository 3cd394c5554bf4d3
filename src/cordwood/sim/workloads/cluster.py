"""A cluster with three replicas of each partition under producers, transactions and consumers, and all faults but the
loss of power."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from random import Random
from typing import Any

from cordwood.runtime.network import NetworkError
from cordwood.sim.checks import CLUSTER_CHECKS
from cordwood.sim.client import Client, Run
from cordwood.sim.cluster import Layout
from cordwood.sim.cluster_faults import ClusterFaults
from cordwood.sim.consumer import seen_record
from cordwood.sim.history import FinalLog, History, Partition, Promise
from cordwood.sim.library.consumer import LibraryConsumer
from cordwood.sim.library.producer import LibraryProducer
from cordwood.sim.library.writer import LibraryWriter
from cordwood.sim.quorum_watch import QuorumWatch
from cordwood.sim.replica_watch import ReplicaWatch
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from cordwood.wire.records import decode_batch

from .base import Workload
from .quorum import HEALING_S, Healing, is_started

_DURATION_S = 15.0
_TOPIC = "topic"
_PARTITIONS = 2
_TIMEOUT_MS = 3_000
_TRANSACTION_TIMEOUT_MS = 2_000
# Until transactions that nobody ends are aborted. One that a broker with a fast clock began lasts longer by as much.
_ENDING_S = 12.0
_MAX_ENDING_S = 100.0


def _layout(source: Random) -> Layout:
    is_combined = source.random() < 0.6
    return Layout(controllers=3 if is_combined else source.choice((1, 3)), brokers=3, is_combined=is_combined)


def _settings(history: History, source: Random) -> dict[str, str]:
    return {
        "broker.session.timeout.ms": source.choice(("2000", "6000")),
        "broker.heartbeat.interval.ms": "500",
        "replica.lag.time.max.ms": source.choice(("1500", "10000")),
        "replica.fetch.wait.max.ms": source.choice(("100", "500")),
        "replica.fetch.backoff.ms": "200",
        "replica.high.watermark.checkpoint.interval.ms": source.choice(("500", "5000")),
        "log.segment.delete.delay.ms": "800",
        "log.roll.ms": source.choice(("2000", "600000")),
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "metadata.log.max.record.bytes.between.snapshots": source.choice(("3000", "20971520")),
    }


async def _main(run: Run, source: Random) -> None:
    cluster = run.cluster
    assert cluster is not None
    QuorumWatch(cluster, run.history.quorum)
    watch = ReplicaWatch(run)
    await cluster.start()
    await _create(Client(run, "admin"))
    faults = ClusterFaults(run)
    work: list[Coroutine[Any, Any, None]] = [faults.work(), watch.work()]
    work += [LibraryProducer(run, f"producer-{number}").work() for number in range(source.randint(1, 2))]
    readers = range(source.randint(1, 2))
    work += [LibraryConsumer(run, f"consumer-{number}", run.partitions).work() for number in readers]
    if source.random() < 0.5:
        work.append(LibraryWriter(run, "writer", "writer", _TRANSACTION_TIMEOUT_MS).work())
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(_DURATION_S)
    run.is_over = True
    await asyncio.gather(*tasks)
    run.is_over = False
    await faults.heal()
    await _judge(run, faults, watch)


async def _create(admin: Client) -> None:
    topic = CreatableTopic(
        name=_TOPIC,
        num_partitions=_PARTITIONS,
        replication_factor=3,
        assignments=[],
        configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
    while True:
        try:
            answer = (await admin.ask(request, CreateTopicsRequest.stable_versions.high)).topics[0]
        except NetworkError:
            continue
        if answer.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            break
        await admin.pause(0.5)
    admin.run.partitions += [(_TOPIC, index) for index in range(_PARTITIONS)]


async def _judge(run: Run, faults: ClusterFaults, watch: ReplicaWatch) -> None:
    """After healing every node starts, all replicas come to be in sync, and are compared and read."""
    cluster, history = run.cluster, run.history
    assert cluster is not None
    healing = Healing(run)
    for machine in cluster.machines.values():
        if not await healing.comes(partial(is_started, faults, machine)):
            history.quorum.unhealed.append(f"{machine.name} has not started within {HEALING_S} s: {machine.refusal}")
            return
    await asyncio.sleep(_ENDING_S)
    deadline = cluster.world.loop.time() + _MAX_ENDING_S
    while _has_open_transactions(run) and cluster.world.loop.time() < deadline:
        await asyncio.sleep(1)
    for partition in run.partitions:
        if not await healing.comes(partial(_is_in_sync, watch, partition)):
            told = {node_id: _told(watch, partition, node_id) for node_id in cluster.brokers}
            history.quorum.unhealed.append(f"{partition} is not in sync within {HEALING_S} s: {told}")
            return
        watch.compare(partition)
        history.final[partition] = _final_log(run, watch, partition)


def _has_open_transactions(run: Run) -> bool:
    assert run.cluster is not None
    nodes = [machine.node for machine in run.cluster.brokers.values() if machine.node is not None]
    replicas = [node.broker.partition(*partition) for node in nodes for partition in run.partitions]
    return any(
        replica.log.last_stable_offset < replica.log.high_watermark
        for replica in replicas
        if replica is not None and replica.is_leader and replica.log is not None
    )


async def _is_in_sync(watch: ReplicaWatch, partition: Partition) -> bool:
    replicas = dict(watch.replicas(partition))
    leader = next((replica for replica in replicas.values() if replica.leader is not None), None)
    if leader is None or leader.leader is None or leader.log is None or len(leader.leader.isr) < len(replicas):
        return False
    return all(
        replica.log is not None and replica.log.high_watermark == replica.log.end_offset == leader.log.end_offset
        for replica in replicas.values()
    )


def _told(watch: ReplicaWatch, partition: Partition, node_id: int) -> str:
    replica = dict(watch.replicas(partition)).get(node_id)
    if replica is None or replica.log is None:
        return "no replica"
    isr = f"leads with {replica.leader.isr}" if replica.leader is not None else f"follows {replica.state.leader}"
    return f"{isr} in epoch {replica.state.leader_epoch}, {replica.log.high_watermark} of {replica.log.end_offset}"


def _final_log(run: Run, watch: ReplicaWatch, partition: Partition) -> FinalLog:
    log = next(replica.log for _, replica in watch.replicas(partition) if replica.leader is not None)
    assert log is not None
    final = FinalLog(log.start_offset, log.high_watermark, 0, read_s=run.now_s)
    final.last_stable_offset = log.last_stable_offset
    position = log.start_offset
    while (there := log.read(position, 1 << 24, log.high_watermark)) is not None:
        data = there.read()
        for at, header in batch_headers(data):
            final.records += [seen_record(header, record) for record in decode_batch(data, at)]
            position = header.next_offset
        if position >= log.high_watermark:
            break
    return final


CLUSTER = Workload("cluster", {Promise.REPLICATED: 1}, _settings, _main, CLUSTER_CHECKS, _layout)
