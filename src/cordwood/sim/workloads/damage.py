"""A node whose files are damaged between two runs: bits are flipped, files truncated and removed, any of them.

The node may refuse to start, and then starts once the files are restored, or with consent to a loss. If it starts, it
may lack damaged data, and logs that. Nothing undamaged is deleted, and everything undamaged is served.
"""

import asyncio
from random import Random
from typing import cast

from cordwood.broker.start.consent import StartConsent
from cordwood.log.files import LOG
from cordwood.runtime.network import NetworkError
from cordwood.sim.checks import DAMAGE_CHECKS
from cordwood.sim.checks.damage import JUDGE
from cordwood.sim.clients.admin import Admin
from cordwood.sim.clients.batches import encode, new_send
from cordwood.sim.clients.client import Client, Over, Run
from cordwood.sim.clients.consumer import fetch_topics, partitions_of
from cordwood.sim.clients.offsets import EARLIEST, LATEST, list_offset
from cordwood.sim.clients.producers import IdempotentProducer, PlainProducer, answers_of, note_answer, produce_request
from cordwood.sim.clients.topic_admin import TopicAdmin
from cordwood.sim.histories.damage import METADATA, Files, Injury, Means, Served
from cordwood.sim.histories.history import History, Outcome, Partition, Promise
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.wire.batch_header import batch_headers, check_crc
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from cordwood.wire.messages.fetch import FetchRequest
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.record import CorruptBatch, InvalidRecord
from cordwood.wire.records import decode_batch

from .base import Workload, busy_settings

_STRETCH_S = 3.0
# After the damage: longer than the delay of deletions and than all background work.
_SETTLING_S = 4.0
_TOPICS = ("first", "second", "third")
_DOOMED = "doomed"
_DELETION = 0.6
_RESTORED = 0.5
_MAX_INJURIES = 3
# How often it is the records that are damaged, of all files of the kind.
_RECORDS = 0.4
# How often a segment is removed with its indexes.
_WHOLE_SEGMENT = 0.7
# More than a batch has.
_MAX_RECORDS = 100
# The attempts of a patient client.
_ATTEMPTS = 5
# How often each kind of file is chosen.
_TARGETS = {"metadata": 4, "root": 3, "partition": 6}
_FOREIGN = {"photos-2024/a.jpg": b"not ours", "holiday/b.jpg": b"nor this", "notes.txt": b"nor these"}


def _settings(history: History, source: Random) -> dict[str, str]:
    settings = busy_settings(history, source)
    settings["num.partitions"] = str(source.randint(1, 3))
    return settings


async def _main(run: Run, source: Random) -> None:
    was_stopped = await _fill(run, source)
    machine, damage = run.machine, run.history.damage
    run.world.network.odds = NetworkOdds()
    machine.repair()
    whole = _files(run)
    damage.injuries = _injure(run, source, is_end_recorded=was_stopped)
    damage.before = _files(run)
    damage.warnings_before = len(run.history.warnings)
    run.is_over = False
    started = await machine.start()
    if not started:
        started = await _start_after_refusal(run, source, whole)
    if started:
        judge = Client(run, JUDGE)
        await _judge(judge)
        await asyncio.sleep(_SETTLING_S)
    damage.after = _files(run)


# Before the damage


async def _fill(run: Run, source: Random) -> bool:
    """Several runs, each with its own end, and foreign files. Returns whether the last one ended with a clean stop."""
    machine, was_stopped = run.machine, False
    admin = Admin(run, "admin")
    topics = [*_TOPICS[: source.randint(2, len(_TOPICS))], _DOOMED]
    for stretch in range(source.randint(1, 3)):
        run.is_over = False
        assert await machine.start(), machine.refusal
        if stretch == 0:
            await admin.make_topics(topics)
        work = [PlainProducer(run, f"plain-{stretch}-{number}").work() for number in range(2)]
        work.append(IdempotentProducer(run, f"idempotent-{stretch}", source.choice(run.partitions)).work())
        work.append(TopicAdmin(run, f"topics-{stretch}").work())
        work.append(_move_about(Admin(run, f"moves-{stretch}")))
        clients = [asyncio.ensure_future(one) for one in work]
        await asyncio.sleep(source.random() * _STRETCH_S)
        if stretch == 0 and source.random() < _DELETION:
            await _delete(admin, _DOOMED)
        await asyncio.sleep(source.random() * _STRETCH_S)
        run.is_over = True
        await asyncio.gather(*clients)
        was_stopped = await _end(run, source)
        if stretch == 0:
            _add_foreign_files(run)
    return was_stopped


async def _move_about(admin: Admin) -> None:
    """Moves replicas between the log directories, so that some moves are in progress when the node ends."""
    try:
        while True:
            await admin.pause(_STRETCH_S)
            try:
                await admin.move()
            except NetworkError:
                continue
    except Over:
        return


async def _end(run: Run, source: Random) -> bool:
    """Returns whether it was a clean stop."""
    machine = run.machine
    match source.randrange(4):
        case 0 | 1:
            await machine.stop()
            return True
        case 2 if run.history.promise is Promise.DURABLE:
            machine.lose_power()
        case _:
            machine.kill()
    return False


async def _delete(admin: Admin, topic: str) -> None:
    admin.run.history.damage.deleted_topics.add(topic)
    state = DeleteTopicState(name=topic)
    request = DeleteTopicsRequest(topics=[state], topic_names=[topic], timeout_ms=1_000)
    await admin.ask_until_answered(request, 6)


def _add_foreign_files(run: Run) -> None:
    for root, disk in run.machine.disks.items():
        for name, content in _FOREIGN.items():
            if "/" in name:
                disk.make_directory(name.rpartition("/")[0])
            disk.create(name).append(content)
            run.history.damage.foreign[f"{root}/{name}"] = content
        disk.sync_all()


# The damage


def _files(run: Run) -> Files:
    return {f"{root}/{path}": data for root, disk in run.machine.disks.items() for path, data in disk.files().items()}


def _injure(run: Run, source: Random, *, is_end_recorded: bool) -> list[Injury]:
    injuries: dict[tuple[str, str], Injury] = {}
    for _ in range(source.choice((1, 1, 1, 2, _MAX_INJURIES))):
        (wanted,) = source.choices(list(_TARGETS), list(_TARGETS.values()))
        found = [
            (root, path)
            for root, disk in run.machine.disks.items()
            for path in disk.files()
            if _target(path) == wanted and (root, path) not in injuries
        ]
        records = [(root, path) for root, path in found if path.endswith(LOG)]
        if found:
            root, path = source.choice(records if records and source.random() < _RECORDS else found)
            for injury in _hurt(run, source, root, path, is_end_recorded=is_end_recorded):
                injuries[root, injury.path] = injury
    return list(injuries.values())


def _target(path: str) -> str | None:
    """The kind of file; None if it is foreign."""
    if path in _FOREIGN:
        return None
    folder = path.rpartition("/")[0]
    return "root" if not folder else "metadata" if folder == METADATA else "partition"


def _hurt(run: Run, source: Random, root: str, path: str, *, is_end_recorded: bool) -> list[Injury]:
    """Damages a file; a segment may be deleted with its indexes, which would reveal the loss. The last segment of a log
    is deleted only after a clean stop, which recorded the log's end: otherwise a start could not detect the loss."""
    disk = run.machine.disks[root]
    data = bytearray(disk.files()[path])
    means = source.choice(list(Means)) if data else Means.REMOVE
    content: bytes | None = None
    if means is Means.FLIP:
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
        content = bytes(data)
    elif means is Means.TRUNCATE:
        content = bytes(data[: source.randrange(len(data))])
    paths = [path]
    if means is Means.REMOVE and path.endswith(LOG) and source.random() < _WHOLE_SEGMENT:
        folder = path.rpartition("/")[0]
        newest = max(other for other in disk.files() if other.startswith(f"{folder}/") and other.endswith(LOG))
        if is_end_recorded or path != newest:
            paths = [other for other in disk.files() if other.startswith(f"{path.removesuffix(LOG)}.")]
    for hurt in paths:
        disk.damage(hurt, content)
        run.world.trace.note("damage", means.value, f"{root}/{hurt}")
    return [Injury(root, hurt, means) for hurt in paths]


async def _start_after_refusal(run: Run, source: Random, whole: Files) -> bool:
    """Acts as an operator would: restores the files, or agrees to the loss."""
    machine, damage = run.machine, run.history.damage
    damage.refusals.append(machine.refusal or "")
    machine.repair()
    if source.random() >= _RESTORED:
        machine.consent = StartConsent(allow_strays=True, accept_metadata_loss=True)
        damage.has_consent = True
        if await machine.start():
            return True
        damage.refusals.append(machine.refusal or "")
        machine.repair()
        machine.consent, damage.has_consent = StartConsent(), False
    for root, disk in machine.disks.items():
        for injury in damage.injuries:
            if injury.root == root:
                if injury.path not in disk.files():
                    disk.create(injury.path)
                disk.damage(injury.path, whole[f"{root}/{injury.path}"])
    damage.is_restored = True
    damage.before = _files(run)
    started = await machine.start()
    assert started, f"with its files restored the node does not start: {machine.refusal}"
    return started


# Serving


async def _judge(judge: Client) -> None:
    run = judge.run
    metadata = await judge.ask_until_answered(MetadataRequest(topics=None), MetadataRequest.stable_versions.high)
    ids = {topic.name: topic.topic_id for topic in metadata.topics}
    run.history.damage.topics = {name for name in ids if name}
    for partition in run.partitions:
        if ids.get(partition[0]) == run.topic_ids[partition[0]]:
            served = run.history.damage.served[partition] = Served()
            # Once this is acknowledged, everything before it can be read.
            served.is_written = await _write(judge, partition)
            await _read(judge, partition, served)


async def _read(judge: Client, partition: Partition, served: Served) -> None:
    """Reads everything, skipping unreadable parts."""
    first = await _offset(judge, partition, EARLIEST)
    last = await _offset(judge, partition, LATEST)
    if first is None or last is None:
        return
    position = first
    while position < last:
        topics = fetch_topics(judge.run, {partition: position}, 1 << 20)
        request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics)
        response = await judge.ask_until_answered(request, FetchRequest.stable_versions.high)
        ((_, data),) = partitions_of(judge.run, response)
        taken = 0 if not data.records else _take(bytes(memoryview(cast("bytes", data.records))), served)
        if taken <= position:
            served.errors[position] = data.error_code
        position = max(position + 1, taken)


async def _offset(judge: Client, partition: Partition, timestamp: int) -> int | None:
    for _ in range(_ATTEMPTS):
        try:
            listed = await list_offset(judge, partition, timestamp)
        except NetworkError:
            listed = None
        if listed is not None:
            return listed.offset
        await judge.pause(1.0)
    return None


def _take(data: bytes, served: Served) -> int:
    """Checks every batch of an answer, as a client does; returns the next offset."""
    end = 0
    try:
        for position, header in batch_headers(data):
            try:
                check_crc(data, header, position)
                served.records |= {record.offset: record.value or b"" for record in decode_batch(data, position)}
            except (CorruptBatch, InvalidRecord):
                # As far as its header can be believed.
                damaged = range(header.base_offset, min(header.next_offset, header.base_offset + _MAX_RECORDS))
                served.errors |= dict.fromkeys(damaged, ErrorCode.CORRUPT_MESSAGE)
            end = header.next_offset
    except CorruptBatch:
        # Later batches cannot be distinguished.
        return end
    return end


async def _write(judge: Client, partition: Partition) -> bool:
    send = new_send(judge, partition, acks=-1)
    version = ProduceRequest.stable_versions.high
    request = produce_request(judge.run, {partition: encode(judge, send)}, -1)
    response = await judge.ask_until_answered(request, version)
    ((_, answer),) = answers_of(judge.run, response)
    note_answer(judge, send, answer)
    return send.outcome is Outcome.ACKNOWLEDGED


DAMAGE = Workload("damage", {Promise.DURABLE: 1, Promise.KILLS: 1}, _settings, _main, checks=DAMAGE_CHECKS)
