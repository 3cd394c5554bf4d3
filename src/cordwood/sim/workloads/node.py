"""A node under producers, consumers and administrators, crashed and started again."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

from cordwood.sim.clients.admin import Admin
from cordwood.sim.clients.client import Run
from cordwood.sim.clients.producers import IdempotentProducer, PlainProducer
from cordwood.sim.clients.topic_admin import TopicAdmin
from cordwood.sim.faults import Faults
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.judgement import crash_and_start, read_everything
from cordwood.sim.library.producer import LibraryProducer

from .base import LIBRARY, Workload, any_consumer, busy_settings

_DURATION_S = 12.0
_RETENTION = 0.2
_COMPACTION = 0.4


def _settings(history: History, source: Random) -> dict[str, str]:
    settings = busy_settings(history, source)
    settings["num.partitions"] = str(source.randint(1, 3))
    if source.random() < _RETENTION:
        history.retention_s = source.choice((2, 6))
        settings["log.retention.ms"] = str(int(history.retention_s * 1000))
    return settings


async def _main(run: Run, source: Random) -> None:
    faults = asyncio.ensure_future(Faults(run).work())
    admin = Admin(run, "admin")
    await admin.make_topics(["first", "second"][: source.randint(1, 2)])
    if source.random() < _COMPACTION:
        await admin.make_compacted_topic("compacted")
    work: list[Coroutine[Any, Any, None]] = [admin.work(), TopicAdmin(run, "topics").work()]
    work += [PlainProducer(run, f"plain-{number}").work() for number in range(source.randint(1, 2))]
    work += [_idempotent_producer(run, source, number) for number in range(source.randint(1, 2))]
    work += [any_consumer(run, source, f"consumer-{number}").work() for number in range(source.randint(1, 2))]
    clients = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(_DURATION_S)
    run.is_over = True
    await asyncio.gather(faults, *clients)
    judge = await crash_and_start(run, source)
    await TopicAdmin(run, "topics").look()
    await read_everything(judge)


def _idempotent_producer(run: Run, source: Random, number: int) -> Coroutine[Any, Any, None]:
    if source.random() < LIBRARY:
        return LibraryProducer(run, f"library-producer-{number}").work()
    return IdempotentProducer(run, f"idempotent-{number}", source.choice(run.partitions)).work()


NODE = Workload("node", {Promise.DURABLE: 5, Promise.KILLS: 3, Promise.PREFIX: 2}, _settings, _main)
