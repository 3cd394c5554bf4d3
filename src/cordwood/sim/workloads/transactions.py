"""Transactional producers of both generations, successors that fence them, and read_committed consumers."""

import asyncio
from collections.abc import Coroutine, Sequence
from random import Random
from typing import Any

from cordwood.sim.checks import CLUSTER_CHECKS
from cordwood.sim.clients.admin import Admin
from cordwood.sim.clients.client import Run
from cordwood.sim.clients.producers import PlainProducer
from cordwood.sim.groups.member import Member
from cordwood.sim.groups.watcher import Watcher
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.library.transform import LibraryTransform
from cordwood.sim.library.writer import LibraryPreparingWriter, LibraryWriter
from cordwood.sim.transactions.group_transform import ClassicTransform, ConsumerTransform
from cordwood.sim.transactions.producer import Generation
from cordwood.sim.transactions.transform import Transform
from cordwood.sim.transactions.two_phases import PreparingWriter
from cordwood.sim.transactions.writer import Writer

from .base import LIBRARY, Workload, any_consumer, busy_settings
from .groups import group_settings, new_plan
from .stage import CLUSTER_PROMISES, Stage, cluster_layout, cluster_settings

_DURATION_S = 15.0
# In a cluster more happens at a time.
_CLUSTER_DURATION_S = 10.0
_TIMEOUTS_MS = (500, 2_000, 6_000)
_CHECK_MS = 200
_LAST_TIMEOUT_MS = 60_000
# Time enough for open transactions to be aborted.
_ENDING_S = 10.0
_GROUP, _MEMBERS = "transform", "members"


def _settings(history: History, source: Random) -> dict[str, str]:
    return {
        **busy_settings(history, source),
        "num.partitions": str(source.randint(1, 3)),
        **group_settings(source),
        "transaction.state.log.num.partitions": str(source.randint(1, 3)),
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": str(_CHECK_MS),
        "transaction.two.phase.commit.enable": "true",
    }


def _replicated_settings(history: History, source: Random) -> dict[str, str]:
    return {**_settings(history, source), **cluster_settings(source)}


async def _main(run: Run, source: Random) -> None:
    stage = await Stage.open(run)
    await Admin(run, "admin").make_topics(["input", "output"])
    stage.begin()
    watchers = [Watcher(run, f"watcher of {group}", group, resets=False) for group in (_GROUP, _MEMBERS)]
    work: list[Coroutine[Any, Any, None]] = [PlainProducer(run, "plain").work()]
    work += [watcher.work() for watcher in watchers]
    writers = _writers(run, source)
    work += [writer.work() for writer in writers]
    preparing = [_preparing_writer(run, source, f"preparing-{number}") for number in range(source.choice((0, 0, 1, 2)))]
    work += [writer.work() for writer in preparing]
    work += [transform.work() for transform in _transforms(run, source)]
    work += [member.work() for member in _members(run, source)]
    work += [any_consumer(run, source, f"consumer-{number}").work() for number in range(source.randint(1, 2))]
    work.append(any_consumer(run, source, "committed", is_committed=True).work())
    clients = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(_DURATION_S if run.cluster is None else _CLUSTER_DURATION_S)
    run.is_over = True
    await asyncio.gather(*clients)
    judge = await stage.close(source)
    if judge is None:
        return
    await _carry_out(run, source, preparing)
    await asyncio.sleep(_ENDING_S)
    await _carry_on(run, source, writers)
    for watcher in watchers:
        await watcher.look(judge)
    await stage.read_everything(judge)


def _writers(run: Run, source: Random) -> list[Writer | LibraryWriter]:
    """Sometimes two that have one transactional id, and fence each other again and again."""
    writers: list[Writer | LibraryWriter] = []
    for number in range(source.randint(1, 3)):
        generation = source.choice(list(Generation))
        for twin in range(source.choice((1, 1, 2))):
            timeout_ms = source.choice(_TIMEOUTS_MS)
            name, transactional_id = f"writer-{number}-{twin}", f"writer-{number}"
            if source.random() < LIBRARY:
                writers.append(LibraryWriter(run, name, transactional_id, timeout_ms))
            else:
                writers.append(Writer(run, name, transactional_id, generation, timeout_ms))
    return writers


def _preparing_writer(run: Run, source: Random, name: str) -> PreparingWriter | LibraryPreparingWriter:
    generation, timeout_ms = source.choice(list(Generation)), source.choice(_TIMEOUTS_MS)
    if source.random() < LIBRARY:
        return LibraryPreparingWriter(run, name, name, timeout_ms)
    return PreparingWriter(run, name, name, generation, timeout_ms)


async def _carry_out(run: Run, source: Random, writers: Sequence[PreparingWriter | LibraryPreparingWriter]) -> None:
    """Commits or aborts their prepared transactions."""
    for writer in writers:
        generation = writer.generation if isinstance(writer, PreparingWriter) else source.choice(list(Generation))
        last = PreparingWriter(run, f"{writer.name}-last", writer.transactional_id, generation, writer.timeout_ms)
        last.is_calm = True
        await last.initialize()


async def _carry_on(run: Run, source: Random, writers: Sequence[Writer | LibraryWriter]) -> None:
    """Every transactional id is usable in the end. One that isn't keeps the run from ending."""
    for name in dict.fromkeys(writer.transactional_id for writer in writers):
        last = Writer(run, f"{name}-last", name, source.choice(list(Generation)), _LAST_TIMEOUT_MS)
        last.is_calm = True
        await last.initialize()
        await last.write(commit=True)


def _transforms(run: Run, source: Random) -> list[Transform]:
    transforms = []
    targets = [partition for partition in run.partitions if partition[0] == "output"]
    inputs = [partition for partition in run.partitions if partition[0] == "input"]
    for partition in source.sample(inputs, source.randint(1, len(inputs))):
        generation = source.choice(list(Generation))
        for twin in range(source.choice((1, 2))):
            timeout_ms = source.choice(_TIMEOUTS_MS)
            name = f"transform-{partition[1]}-{twin}"
            transforms.append(
                Transform(run, name, generation, timeout_ms, group=_GROUP, source=partition, targets=targets)
            )
    return transforms


def _members(run: Run, source: Random) -> list[Member | LibraryTransform]:
    """Members of one group that share the input, each with its own transactional id."""
    kinds = source.choice(((ClassicTransform,), (ConsumerTransform,), (ClassicTransform, ConsumerTransform)))
    plan = new_plan(run, source, _MEMBERS, ["input"], has_both_protocols=len(kinds) > 1)
    targets = [partition for partition in run.partitions if partition[0] == "output"]
    generation, timeout_ms = source.choice(list(Generation)), max(_TIMEOUTS_MS)
    members: list[Member | LibraryTransform] = []
    for number in range(source.choice((0, 1, 2, 3))):
        kind = source.choice(kinds)
        # A library member believes a former coordinator, and would repeat everything.
        if source.random() < LIBRARY and run.cluster is None:
            protocol = "classic" if kind is ClassicTransform else "consumer"
            members.append(LibraryTransform(run, f"member-{number}", plan, protocol, timeout_ms, targets))
        else:
            members.append(kind(run, f"member-{number}", plan, generation, timeout_ms, targets))
    return members


TRANSACTIONS = Workload("transactions", {Promise.DURABLE: 5, Promise.KILLS: 5}, _settings, _main)
CLUSTER_TRANSACTIONS = Workload(
    "cluster-transactions", CLUSTER_PROMISES, _replicated_settings, _main, CLUSTER_CHECKS, cluster_layout
)
