"""A metadata quorum of several controllers under administrators, with all faults of its nodes."""

import asyncio
from functools import partial
from random import Random

from cordwood.net.peers.channel import Channel
from cordwood.sim.checks import QUORUM_CHECKS
from cordwood.sim.clients.client import Run
from cordwood.sim.clients.quorum_admin import SETTING, QuorumAdmin, VoterAdmin
from cordwood.sim.cluster import Layout
from cordwood.sim.cluster_faults import ClusterFaults
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.histories.quorum import Batch, FinalMetadata
from cordwood.sim.machine import PORT, Machine
from cordwood.sim.watches.quorum_watch import QuorumWatch
from cordwood.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.primitives import uuid_text

from .base import Workload
from .stage import Healing

_DURATION_S = 15.0
_TOPIC = 2


def _layout(source: Random) -> Layout:
    controllers = source.choice((3, 3, 3, 5))
    is_static = source.random() < 0.25
    return Layout(
        controllers=controllers,
        brokers=source.randint(1, 3),
        is_combined=source.random() < 0.5,
        is_static=is_static,
        spares=0 if is_static else source.choice((0, 1)),
        joins_by_itself=not is_static and source.random() < 0.25,
    )


def _settings(history: History, source: Random) -> dict[str, str]:
    return {
        "controller.quorum.election.timeout.ms": source.choice(("100", "500", "1000")),
        "controller.quorum.fetch.timeout.ms": source.choice(("1000", "2000")),
        "controller.quorum.request.timeout.ms": source.choice(("500", "2000")),
        "metadata.log.max.record.bytes.between.snapshots": source.choice(("500", "3000", "20971520")),
        "metadata.max.retention.bytes": source.choice(("2000", "104857600")),
        "metadata.log.segment.bytes": source.choice(("8388608", "1073741824")),
        "broker.session.timeout.ms": source.choice(("2000", "9000")),
        "broker.heartbeat.interval.ms": "500",
    }


async def _main(run: Run, source: Random) -> None:
    cluster = run.cluster
    assert cluster is not None
    QuorumWatch(cluster, run.history.quorum)
    faults = ClusterFaults(run)
    work = [faults.work()]
    work += [QuorumAdmin(run, f"admin-{number}").work() for number in range(source.randint(1, 2))]
    if not cluster.layout.is_static or source.random() < 0.5:
        work.append(VoterAdmin(run, "voters").work())
    tasks = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(_DURATION_S)
    run.is_over = True
    await asyncio.gather(*tasks)
    run.is_over = False
    await faults.heal()
    await judge_quorum(run, faults)


async def judge_quorum(run: Run, faults: ClusterFaults) -> None:
    """After healing every node starts, and a topic that is created through each broker gets to all of them."""
    cluster, history = run.cluster, run.history.quorum
    assert cluster is not None
    healing = Healing(run)
    if not await healing.all_start(faults, cluster.machines.values()):
        return
    judges = [QuorumAdmin(run, f"judge-{number}", machine) for number, machine in cluster.brokers.items()]
    for judge in judges:
        if not await healing.comes(partial(judge.create, judge.name)):
            healing.fails(f"no topic can be created through a broker: {judge.name}")
            return
    for number, machine in cluster.brokers.items():
        final = FinalMetadata(number, {}, {})
        if not await healing.comes(partial(_look, judges[0], machine, [judge.name for judge in judges], final)):
            missing = sorted({judge.name for judge in judges} - final.topics.keys())
            healing.fails(f"{machine.name} does not know {missing}")
            return
        history.final.append(final)
    for number, machine in cluster.machines.items():
        if machine.member is not None:
            log, end = machine.member.log, machine.member.high_watermark
            history.final_logs[number] = tuple(map(Batch.of, log.headers(log.start_offset, end)))


async def _look(judge: QuorumAdmin, machine: Machine, names: list[str], final: FinalMetadata) -> bool:
    """Returns whether the broker knows these topics. Its metadata is in `final` then."""
    network = judge.run.world.network.host(judge.name)
    channel = await Channel.open(network, machine.name, PORT, client_id=judge.name, timeout_s=2.0)
    try:
        metadata = await channel.request(MetadataRequest(topics=None), MetadataRequest.stable_versions.high, 5.0)
        resources = [
            DescribeConfigsResource(resource_type=_TOPIC, resource_name=topic.name or "", configuration_keys=[SETTING])
            for topic in metadata.topics
        ]
        described = await channel.request(
            DescribeConfigsRequest(resources=resources), DescribeConfigsRequest.stable_versions.high, 5.0
        )
    finally:
        channel.abort()
    final.topics.update((topic.name or "", uuid_text(topic.topic_id)) for topic in metadata.topics)
    for result in described.results:
        if result.configs:
            final.settings[result.resource_name, SETTING] = result.configs[0].value or ""
    return set(names) <= final.topics.keys()


QUORUM = Workload("quorum", {Promise.KILLS: 1}, _settings, _main, QUORUM_CHECKS, _layout)
