"""A cluster with replicated partitions under clients of all kinds, an administrator, and all faults."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from cordwood.runtime.network import NetworkError
from cordwood.sim.checks import CLUSTER_CHECKS
from cordwood.sim.clients.client import Client, Run
from cordwood.sim.clients.cluster_admin import ClusterAdmin
from cordwood.sim.clients.producers import IdempotentProducer, PlainProducer
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.library.consumer import LibraryConsumer
from cordwood.sim.library.producer import LibraryProducer
from cordwood.sim.library.writer import LibraryWriter
from cordwood.sim.partition import Partition
from cordwood.sim.transactions.producer import Generation
from cordwood.sim.transactions.writer import Writer
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic

from .base import Workload, any_consumer
from .stage import CLUSTER_PROMISES, Stage, cluster_layout, cluster_settings

_DURATION_S = 12.0
_TOPIC, _LOOSE = "topic", "loose"
_PARTITIONS = 2
_TIMEOUT_MS = 3_000
_TRANSACTION_TIMEOUT_MS = 2_000


def _settings(history: History, source: Random) -> dict[str, str]:
    settings = {
        **cluster_settings(source),
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    }
    if history.promise is Promise.DURABLE:
        settings["log.flush.interval.messages"] = "1"
    return settings


async def _main(run: Run, source: Random) -> None:
    stage = await Stage.open(run)
    run.partitions += await _create(Client(run, "admin"), _TOPIC, {})
    loose: list[Partition] = []
    if source.random() < 0.4:
        run.history.replicas.loose.add(_LOOSE)
        settings = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
        loose = await _create(Client(run, "admin"), _LOOSE, settings)
    stage.begin()
    tasks = [asyncio.ensure_future(one) for one in _clients(run, source, loose)]
    await asyncio.sleep(_DURATION_S)
    run.is_over = True
    await asyncio.gather(*tasks)
    run.partitions += loose
    judge = await stage.close(source)
    if judge is not None:
        await stage.read_everything(judge)


def _clients(run: Run, source: Random, loose: list[Partition]) -> list[Coroutine[Any, Any, None]]:
    work = [LibraryProducer(run, f"producer-{number}").work() for number in range(source.randint(0, 2))]
    work += [PlainProducer(run, f"plain-{number}").work() for number in range(source.choice((0, 0, 1)))]
    for number in range(source.choice((0, 1, 1))):
        work.append(IdempotentProducer(run, f"idempotent-{number}", source.choice(run.partitions)).work())
    work += [IdempotentProducer(run, f"loose-{number}", partition, 1).work() for number, partition in enumerate(loose)]
    work += [any_consumer(run, source, f"consumer-{number}").work() for number in range(source.choice((1, 1, 2)))]
    if source.random() < 0.3:
        work.append(LibraryWriter(run, "writer", "writer", _TRANSACTION_TIMEOUT_MS).work())
    elif source.random() < 0.3:
        work.append(Writer(run, "writer", "writer", source.choice(list(Generation)), _TRANSACTION_TIMEOUT_MS).work())
    if source.random() < 0.3:
        work.append(LibraryConsumer(run, "committed", list(run.partitions), is_committed=True).work())
    if source.random() < 0.7:
        work.append(ClusterAdmin(run, "reassigning").work())
    return work


async def _create(admin: Client, name: str, settings: dict[str, str]) -> list[Partition]:
    topic = CreatableTopic(
        name=name,
        num_partitions=_PARTITIONS,
        replication_factor=3,
        assignments=[],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=_TIMEOUT_MS)
    look = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    while True:
        try:
            answer = (await admin.ask(request, CreateTopicsRequest.stable_versions.high)).topics[0]
            if answer.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                found = (await admin.ask(look, MetadataRequest.stable_versions.high)).topics[0]
                if not found.error_code:
                    break
        except NetworkError:
            continue
        await admin.pause(0.5)
    admin.run.topic_ids[name] = found.topic_id
    return [(name, index) for index in range(_PARTITIONS)]


CLUSTER = Workload("cluster", CLUSTER_PROMISES, _settings, _main, CLUSTER_CHECKS, cluster_layout)
