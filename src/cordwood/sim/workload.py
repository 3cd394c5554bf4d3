"""One run: a node that is crashed and started again, clients that use it meanwhile, and what they saw, judged.

result = run_seed(17)
result.violations, result.digest
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from cordwood.runtime.network import NetworkError
from cordwood.wire.messages.fetch import FetchRequest
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.primitives import uuid_text

from .admin import Admin
from .batches import encode, new_send
from .checks import Violation, violations
from .client import Client, Run
from .connection import NetworkOdds
from .consumer import Consumer, fetch_topics, note_read, partitions_of
from .faults import Faults
from .history import FinalLog, History, Outcome, Partition, Promise, Seen
from .log_lines import log_lines
from .machine import Machine
from .offsets import EARLIEST, list_offset
from .producers import IdempotentProducer, PlainProducer, answers_of, note_answer, produce_request
from .topic_admin import TopicAdmin
from .world import World

_DURATION_S = 12.0
# Far more than a run takes: one that hangs ends there.
_LIMIT_S = 300.0
_LOOK_UPS = 3
_RETENTION = 0.2
_COMPACTION = 0.4
_SOME_FLUSHES = 0.2


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    promise: Promise
    violations: list[Violation]
    digest: str
    events: int
    tail: str
    history: History

    def summary(self) -> str:
        history = self.history
        acknowledged = sum(1 for _ in history.acknowledged())
        records = sum(len(read.records) for read in history.reads)
        return (
            f"{acknowledged} of {len(history.sends)} sends acknowledged, {records} records read, "
            f"{self.events} events; {self.promise.value}"
        )


def run_seed(seed: int) -> Result:
    source = Random(f"{seed}/workload")
    promise = source.choices(list(Promise), weights=(5, 3, 2))[0]
    world = World(seed, odds=NetworkOdds(loss=source.choice((0.0, 0.002, 0.02))), limit_s=_LIMIT_S)
    history = History(promise)
    machine = Machine(
        world, "broker", _settings(history, source), source.choice((("/data",), ("/data", "/more"), ("/a", "/b", "/c")))
    )
    run = Run(world, machine, history)
    found: list[Violation] = []
    with log_lines(world.trace) as failures:
        try:
            world.run(_main(run, source))
        except Exception as error:  # noqa: BLE001  # whatever it is, the seed has found it
            found.append(Violation("a run ends", f"{type(error).__name__}: {error}"))
    found += [Violation("a handler does not fail", failure) for failure in failures]
    history.power_losses = [end.incarnation for end in machine.ends if end.power_lost]
    found += violations(history)
    return Result(seed, promise, found, world.trace.digest, world.trace.events, world.trace.tail(), history)


def _settings(history: History, source: Random) -> dict[str, str]:
    settings = {
        # What is done now and then is done often.
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "700",
        "log.flush.offset.checkpoint.interval.ms": "1100",
        "log.flush.start.offset.checkpoint.interval.ms": "1300",
        "replica.high.watermark.checkpoint.interval.ms": "900",
        "log.segment.delete.delay.ms": "800",
        "log.cleaner.backoff.ms": "600",
        "metadata.log.max.record.bytes.between.snapshots": source.choice(("1000", "20971520")),
        "num.partitions": str(source.randint(1, 3)),
        # Segments are rolled by time, so that little data makes many.
        "log.roll.ms": source.choice(("1000", "5000", "600000")),
        # With a small one, what is sent is read from files that may be gone by then.
        "socket.send.buffer.bytes": source.choice(("102400", "2000")),
        "log.index.interval.bytes": source.choice(("0", "200", "4096")),
    }
    if source.random() < _RETENTION:
        history.retention_s = source.choice((2, 6))
        settings["log.retention.ms"] = str(int(history.retention_s * 1000))
    if history.promise is Promise.DURABLE:
        settings["log.flush.interval.messages"] = "1"
    elif source.random() < _SOME_FLUSHES:
        settings["log.flush.interval.messages"] = "5"
    return settings


async def _main(run: Run, source: Random) -> None:
    faults = asyncio.ensure_future(Faults(run).work())
    admin = Admin(run, "admin")
    await admin.make_topics(["first", "second"][: source.randint(1, 2)])
    if source.random() < _COMPACTION:
        await admin.make_compacted_topic("compacted")
    work: list[Coroutine[Any, Any, None]] = [admin.work(), TopicAdmin(run, "topics").work()]
    partitions = list(run.partitions)
    work += [PlainProducer(run, f"plain-{number}").work() for number in range(source.randint(1, 2))]
    work += [
        IdempotentProducer(run, f"idempotent-{number}", source.choice(partitions)).work()
        for number in range(source.randint(1, 2))
    ]
    work += [
        Consumer(run, f"consumer-{number}", source.sample(partitions, source.randint(1, len(partitions)))).work()
        for number in range(source.randint(1, 2))
    ]
    clients = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(_DURATION_S)
    run.is_over = True
    await asyncio.gather(faults, *clients)
    await _judge(run, source)


async def _judge(run: Run, source: Random) -> None:
    """After a last crash nothing is in the way any more: what is there now is what was kept."""
    machine, network = run.machine, run.world.network
    run.is_over = False
    network.odds = NetworkOdds()
    if run.history.promise is Promise.DURABLE and source.random() < 0.5:
        machine.lose_power()
    else:
        machine.kill()
    machine.repair()
    started = await machine.start()
    assert started, "nothing keeps it from starting"
    judge = Admin(run, "judge")
    metadata = await judge.ask_until_answered(MetadataRequest(topics=None), MetadataRequest.stable_versions.high)
    run.history.final_topics = {topic.name or "": uuid_text(topic.topic_id) for topic in metadata.topics}
    await TopicAdmin(run, "topics").look(metadata)
    for partition in run.partitions:
        await _produce_last(judge, partition)
        while not await _read_all(judge, partition):
            # Retention has taken what was about to be read.
            await judge.pause(1.0)
        if run.history.retention_s == float("inf"):
            await _look_up(judge, partition)


async def _produce_last(judge: Client, partition: Partition) -> None:
    """Once this is acknowledged, everything before it can be read."""
    version = ProduceRequest.stable_versions.high
    while True:
        send = new_send(judge, partition, acks=-1)
        try:
            response = await judge.ask(produce_request(judge.run, {partition: encode(judge, send)}, -1), version)
        except NetworkError:
            continue
        ((_, answer),) = answers_of(judge.run, response)
        note_answer(judge, send, answer)
        if send.outcome is Outcome.ACKNOWLEDGED:
            return
        await judge.pause(1.0)


async def _read_all(judge: Admin, partition: Partition) -> bool:
    """Whether all of it could be read."""
    start = await list_offset(judge, partition, EARLIEST)
    assert start is not None, "it is led, so it has offsets"
    log = FinalLog(start.offset, start.offset, judge.incarnation)
    judge.run.history.final[partition] = log
    position = start.offset
    while True:
        begun_s = judge.run.now_s
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 24,
            session_epoch=-1,
            topics=fetch_topics(judge.run, {partition: position}, 1 << 24),
        )
        response = await judge.ask_until_answered(request, FetchRequest.stable_versions.high)
        ((_, data),) = partitions_of(judge.run, response)
        read = note_read(judge, partition, position, begun_s, data, is_alone=True)
        if read.error:
            return False
        log.high_watermark = read.high_watermark
        log.read_s = judge.run.now_s
        fresh: list[Seen] = [seen for seen in read.records if seen.offset >= position]
        log.records += fresh
        if not position < read.next_offset < read.high_watermark:
            return True
        position = read.next_offset


async def _look_up(judge: Admin, partition: Partition) -> None:
    records = judge.run.history.final[partition].records
    for _ in range(_LOOK_UPS):
        timestamp = judge.source.choice(records).timestamp + judge.source.randint(-1, 1) if records else 0
        listed = await list_offset(judge, partition, timestamp)
        assert listed is not None, "it is led, so it has offsets"
        judge.run.history.looked_up.append((partition, timestamp, listed.offset, listed.found_timestamp))
