"""The end of a run: the node is crashed once more, started, and read from end to end."""

from random import Random

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.admin import Admin
from cordwood.sim.clients.batches import encode, new_send
from cordwood.sim.clients.client import Client, Run
from cordwood.sim.clients.consumer import fetch_topics, note_read, partitions_of
from cordwood.sim.clients.offsets import EARLIEST, list_offset
from cordwood.sim.clients.producers import answers_of, note_answer, produce_request
from cordwood.sim.histories.history import FinalLog, Listed, Outcome, Partition, Promise, Seen
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.wire.messages.fetch import FetchRequest
from cordwood.wire.messages.metadata import MetadataRequest
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.primitives import uuid_text

_LOOK_UPS = 3


async def crash_and_start(run: Run, source: Random) -> Admin:
    """Crashes and heals the node for the last time: its state is final. Returns the client of the judge."""
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
    return judge


async def read_everything(judge: Admin) -> None:
    run = judge.run
    for partition in run.partitions:
        while not await produces(judge, partition):
            await judge.pause(1.0)
        while not await _read_all(judge, partition):
            # Retention has deleted the records in between.
            await judge.pause(1.0)
        await _read_committed(judge, partition)
        if run.history.retention_s == float("inf"):
            await _look_up(judge, partition)


async def produces(judge: Client, partition: Partition) -> bool:
    """Returns whether a produce is acknowledged. Once it is, everything before it can be read."""
    send = new_send(judge, partition, acks=-1)
    request = produce_request(judge.run, {partition: encode(judge, send)}, -1)
    try:
        response = await judge.ask(request, ProduceRequest.stable_versions.high)
    except NetworkError:
        return False
    ((_, answer),) = answers_of(judge.run, response)
    note_answer(judge, send, answer)
    return send.outcome is Outcome.ACKNOWLEDGED


async def _read_all(judge: Admin, partition: Partition) -> bool:
    """Returns whether all of it could be read."""
    start = await _offset(judge, partition, EARLIEST)
    log = FinalLog(start.offset, start.offset, judge.incarnation)
    judge.run.history.final[partition] = log
    position = start.offset
    while True:
        begun_s = judge.run.now_s
        response = await judge.ask_until_answered(_fetch(judge, partition, position), FetchRequest.stable_versions.high)
        ((_, data),) = partitions_of(judge.run, response)
        read = note_read(judge, partition, position, begun_s, data, is_alone=True)
        if read.error:
            return False
        log.high_watermark, log.last_stable_offset = read.high_watermark, read.last_stable_offset
        log.read_s = judge.run.now_s
        fresh: list[Seen] = [seen for seen in read.records if seen.offset >= position]
        log.records += fresh
        if not position < read.next_offset < read.high_watermark:
            return True
        position = read.next_offset


async def _read_committed(judge: Admin, partition: Partition) -> None:
    log = judge.run.history.final[partition]
    position = log.start_offset
    while position < log.last_stable_offset:
        begun_s = judge.run.now_s
        request = _fetch(judge, partition, position, isolation_level=1)
        response = await judge.ask_until_answered(request, FetchRequest.stable_versions.high)
        ((_, data),) = partitions_of(judge.run, response)
        read = note_read(judge, partition, position, begun_s, data, is_alone=True, is_committed=True)
        if read.next_offset == position:
            return
        position = read.next_offset


def _fetch(judge: Admin, partition: Partition, position: int, isolation_level: int = 0) -> FetchRequest:
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 24,
        session_epoch=-1,
        isolation_level=isolation_level,
        topics=fetch_topics(judge.run, {partition: position}, 1 << 24),
    )


async def _look_up(judge: Admin, partition: Partition) -> None:
    records = judge.run.history.final[partition].records
    for _ in range(_LOOK_UPS):
        timestamp = judge.source.choice(records).timestamp + judge.source.randint(-1, 1) if records else 0
        listed = await _offset(judge, partition, timestamp)
        judge.run.history.looked_up.append((partition, timestamp, listed.offset, listed.found_timestamp))


async def _offset(judge: Admin, partition: Partition, timestamp: int) -> Listed:
    while True:
        try:
            listed = await list_offset(judge, partition, timestamp)
        except NetworkError:
            listed = None
        if listed is not None:
            return listed
        await judge.pause(1.0)
