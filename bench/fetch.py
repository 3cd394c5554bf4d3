"""Cost of a Fetch in dispatch and handler, without sockets: at any place of a log, of many partitions, and parked.

Processor time of this process, the least of several rounds.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from itertools import count

from cordwood.broker.broker import Broker
from cordwood.broker.controller.topic_creation import create_missing
from cordwood.broker.start.standalone import standalone_config
from cordwood.config.layers import Layer
from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.pipeline import Pipeline
from cordwood.net.serving import Reply
from cordwood.node import Node
from cordwood.replica.partition import Partition
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.event_loop import run
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.frames import decode_response, encode_request
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch

VERSION = 11
BATCHES = 20_000
BATCH_RECORDS = 10
MANY = 1000
ROUNDS = 7
READ_COMMITTED = 1


class NoConnection:
    peer = local = Address("bench", 0)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        run(measure_all(directory))


async def measure_all(directory: str) -> None:
    config = standalone_config(Layer("bench", {"log.dirs": directory, "num.partitions": str(MANY)}), port=0)
    node = await Node.start(
        config, network=SocketNetwork(), clock=SystemClock(), random=SeededRandom(), open_disk=LocalDisk
    )
    try:
        await create_missing(node.broker, ["t"])
        await measure(node)
    finally:
        await node.stop()


async def measure(node: Node) -> None:
    assert node.broker_role is not None
    pipeline = node.broker_role.pipeline
    info = ConnectionInfo(NoConnection(), "PLAINTEXT", 0)  # type: ignore[arg-type]
    log = partition_of(node, 0)
    for _ in range(BATCHES):
        log.append(a_batch(BATCH_RECORDS), 1, node.broker.clock.now_ms())
    end = BATCHES * BATCH_RECORDS

    def fetching(offset: int, *, partitions: int = 1, isolation_level: int = 0) -> Callable[[], None]:
        frame = encoded(offset, partitions=partitions, isolation_level=isolation_level)
        return lambda: serve(pipeline, frame, info)

    for name, offset in (("first", 0), ("middle", end // 2), ("last", end - BATCH_RECORDS)):
        print(f"{name + ' batch':24} {best_us(fetching(offset), 2000):8.1f} µs")
    print(f"{'read committed':24} {best_us(fetching(end - 1, isolation_level=READ_COMMITTED), 2000):8.1f} µs")
    print(f"{'nothing new':24} {best_us(fetching(end), 2000):8.1f} µs")
    each = best_us(fetching(0, partitions=MANY), 5) / MANY
    print(f"{f'{MANY:,} partitions':24} {each:8.1f} µs each")
    each = best_us(in_session(pipeline, info), 5) / MANY
    print(f"{'the same in a session':24} {each:8.1f} µs each")
    await measure_parked(node, pipeline, info)


async def measure_parked(node: Node, pipeline: Pipeline[Broker], info: ConnectionInfo) -> None:
    """A consumer at the end of a partition: it is parked, a record comes, it is answered."""
    watched = partition_of(node, 1)
    times_us: list[list[float]] = [[], [], []]
    for offset in range(3000):
        frame = encoded(offset, partition=1, max_wait_ms=60_000)
        records = a_batch(1)
        begun = time.process_time()
        reply = pipeline(bytearray(frame), info)
        parked = time.process_time()
        watched.append(records, 1, node.broker.clock.now_ms())
        appended = time.process_time()
        await asyncio.sleep(0)
        answered = time.process_time()
        assert isinstance(reply, Reply)
        assert reply.done
        for times, took in zip(times_us, (parked - begun, appended - parked, answered - appended), strict=True):
            times.append(took * 1e6)
    for name, times in zip(("parked", "append that wakes it", "answered"), times_us, strict=True):
        print(f"{name:24} {sorted(times)[len(times) // 2]:8.1f} µs")


def in_session(pipeline: Pipeline[Broker], info: ConnectionInfo) -> Callable[[], None]:
    """Next fetches of a session, in which one partition has data."""
    opened = pipeline(bytearray(encoded(0, partition=2, partitions=MANY - 2, session=(0, 0))), info)
    assert isinstance(opened, list)
    whole = b"".join(part for part in opened if isinstance(part, bytes | bytearray))
    _, response = decode_response(FetchResponse, VERSION, whole[4:])
    epochs = count(1)

    def fetch_next() -> None:
        serve(pipeline, encoded(0, partitions=1, session=(response.session_id, next(epochs))), info)

    return fetch_next


def serve(pipeline: Pipeline[Broker], frame: bytes, info: ConnectionInfo) -> None:
    pipeline(bytearray(frame), info)


def best_us(call: Callable[[], None], count: int) -> float:
    call()
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(count):
            call()
        rounds.append((time.process_time() - begun) / count * 1e6)
    return min(rounds)


def partition_of(node: Node, index: int) -> Partition:
    partition = node.broker.partition("t", index)
    assert partition is not None
    return partition


def a_batch(records: int) -> bytearray:
    return encode_batch([Record(index, 1_700_000_000_000, None, bytes(100)) for index in range(records)])


def encoded(
    offset: int,
    *,
    partition: int = 0,
    partitions: int = 1,
    isolation_level: int = 0,
    max_wait_ms: int = 0,
    session: tuple[int, int] = (0, -1),
) -> bytes:
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index in range(partition, partition + partitions)
    ]
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=52_428_800,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic="t", partitions=wanted)],
    )
    return encode_request(request, VERSION, 0, "bench")[4:]
