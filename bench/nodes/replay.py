"""Requests encoded beforehand and sent as they are: a client that costs less than the broker it drives.

Every response is counted by its size while the clock runs and looked into after it has stopped.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice

from crc32c import crc32c

from bench.nodes.wire_client import CLIENT_ID, connect
from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import decode_response, encode_request
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from cordwood.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from cordwood.wire.record import Buffer, Record
from cordwood.wire.records import encode_batch

PRODUCE_VERSION = 9
FETCH_VERSION = 12
STALLED_S = 60

# In a batch of magic 2: where the checksum stands, where what it covers begins, and where producer and sequence are.
_CRC = struct.Struct(">I")
_CRC_AT = 17
_CHECKED_FROM = 21
_SEQUENCE = struct.Struct(">i")
_SEQUENCE_AT = 53

_SIZE = struct.Struct(">i")
_JOINED_BYTES = 16 << 10
_MANY = 16
_NOWHERE = bytearray(8 << 20)
_WORDS = b'order user click 2026-11-15T "id": price EUR status ok 42 '.split()


@dataclass(slots=True)
class Load:
    """A stream of Produce requests: `requests` of them, by turns to the partitions of a topic."""

    topic: str
    partitions: int
    requests: int
    records_per_request: int
    value_bytes: int
    acks: int = 1
    codec: Codec = Codec.NONE
    producer: tuple[int, int] | None = None
    """Producer id and epoch: the batches are then numbered."""

    @property
    def records(self) -> int:
        return self.requests * self.records_per_request


def produce(address: tuple[str, int], load: Load, window: int) -> float:
    """Seconds from the first byte sent to the last response, with `window` requests in flight."""
    return send_all(address, _produce_requests(load), window)


def send_all(address: tuple[str, int], requests: Iterable[Buffer], window: int) -> float:
    """As `produce`, of requests as they come. Raises when any of them was refused."""
    with connect(address) as connection:
        started = time.perf_counter()
        responses = _exchange(connection, iter(requests), window)
        elapsed_s = time.perf_counter() - started
    for response in responses:
        check_produced(response)
    return elapsed_s


def send_until_taken(address: tuple[str, int], requests: list[bytes], window: int) -> None:
    """Kafka names a partition's leader before that one knows it (KAFKA-15591), and refuses requests in between."""
    with connect(address) as connection:
        while requests:
            refused = []
            for request, response in zip(requests, _exchange(connection, iter(requests), window), strict=True):
                if _produced(response).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    refused.append(request)
                else:
                    check_produced(response)
            requests = refused


def _exchange(connection: socket.socket, requests: Iterator[Buffer], window: int) -> list[bytes]:
    """Small requests are joined to one write. Sending blocks until the broker reads: its responses are small.

    With many requests in flight, responses are taken a quarter of them at a time (the socket wakes us at so many
    bytes): waking up for each would cost more than a fast broker spends on its request.
    """
    responses: list[bytes] = []
    unread = b""
    in_flight = 0
    while True:
        chunk = bytearray()
        while in_flight < window and len(chunk) < _JOINED_BYTES and (request := next(requests, None)) is not None:
            in_flight += 1
            if len(request) >= _JOINED_BYTES:
                connection.sendall(request)
            else:
                chunk += request
        if chunk:
            connection.sendall(chunk)
        if not in_flight:
            return responses
        if responses and window >= _MANY:
            awaited = min(window // 4, in_flight) * (4 + len(responses[0])) - len(unread)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(1, awaited))
        frames, unread = _split(unread + _received(connection, 1 << 18))
        responses += frames
        in_flight -= len(frames)


def _split(data: bytes) -> tuple[list[bytes], bytes]:
    """Whole frames without their sizes, and what is left."""
    frames = []
    position = 0
    while len(data) - position >= 4:
        end = position + 4 + _SIZE.unpack_from(data, position)[0]
        if end > len(data):
            break
        frames.append(data[position + 4 : end])
        position = end
    return frames, data[position:]


def _received(connection: socket.socket, most: int) -> bytes:
    data = connection.recv(most)
    if not data:
        raise ConnectionError("the broker closed the connection")
    return data


def produce_request(topic: str, partition: int, batch: bytes | bytearray, acks: int) -> bytes:
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    request = ProduceRequest(transactional_id=None, acks=acks, timeout_ms=30_000, topic_data=[data])
    return encode_request(request, PRODUCE_VERSION, 1, CLIENT_ID)


def batch_of(load: Load) -> bytearray:
    """Values of word-like filler (lz4 makes a half to a third of it), stamped with the time of now."""
    filler = _filler(load.records_per_request * 37 + load.value_bytes)
    now_ms = time.time_ns() // 1_000_000
    producer_id, epoch = load.producer or (-1, -1)
    return encode_batch(
        [
            Record(number, now_ms, None, filler[number * 37 : number * 37 + load.value_bytes])
            for number in range(load.records_per_request)
        ],
        codec=load.codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=0 if load.producer else -1,
    )


def _filler(size: int) -> bytes:
    words = bytearray()
    state = 2463534242
    while len(words) < size:
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        words += b"%b " % _WORDS[state % len(_WORDS)] if state & 64 else b"%04x," % (state >> 15)
    return bytes(words)


def _produce_requests(load: Load) -> Iterator[Buffer]:
    batch = batch_of(load)
    frames = [bytearray(produce_request(load.topic, number, batch, load.acks)) for number in range(load.partitions)]
    if not load.producer:
        return islice(cycle(frames), load.requests)
    return _numbered(frames, len(frames[0]) - frames[0].index(batch), load)


def _numbered(frames: list[bytearray], batch_and_rest: int, load: Load) -> Iterator[Buffer]:
    """Each frame again and again, with the sequence that is next for its partition and a checksum over it."""
    starts = [len(frame) - batch_and_rest for frame in frames]
    batch_bytes = len(batch_of(load))
    for number in range(load.requests):
        turn, partition = divmod(number, len(frames))
        frame, start = frames[partition], starts[partition]
        _SEQUENCE.pack_into(frame, start + _SEQUENCE_AT, turn * load.records_per_request & 0x7FFFFFFF)
        checked = memoryview(frame)[start + _CHECKED_FROM : start + batch_bytes]
        _CRC.pack_into(frame, start + _CRC_AT, crc32c(checked))
        yield frame


def check_produced(frame: bytes) -> None:
    partition = _produced(frame)
    if partition.error_code:
        raise RuntimeError(f"partition {partition.index}: error {partition.error_code} {partition.error_message}")


def _produced(frame: bytes) -> PartitionProduceResponse:
    return decode_response(ProduceResponse, PRODUCE_VERSION, frame)[1].responses[0].partition_responses[0]


# ---- fetching


def fetch_request(topic: str, partition: int, offset: int, max_bytes: int, max_wait_ms: int = 500) -> bytes:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
        forgotten_topics_data=[],
    )
    return encode_request(request, FETCH_VERSION, 1, CLIENT_ID)


def consume(address: tuple[str, int], load: Load, max_bytes: int, window: int) -> float:
    """Seconds to read everything that `load` wrote; the next offset follows from the size of its batches."""
    batch_bytes = len(batch_of(load))
    batches_each = max(1, max_bytes // batch_bytes)
    batches_per_partition = load.requests // load.partitions
    requests = [
        fetch_request(load.topic, partition, batch * load.records_per_request, max_bytes)
        for batch in range(0, batches_per_partition, batches_each)
        for partition in range(load.partitions)
    ]
    with connect(address) as connection:
        started = time.perf_counter()
        received = fetch_all(connection, requests, window)
        elapsed_s = time.perf_counter() - started
    wanted = batches_per_partition * load.partitions * batch_bytes
    if received < wanted:
        raise RuntimeError(f"{received} bytes were received, {wanted} were written")
    return elapsed_s


def fetch_all(connection: socket.socket, requests: list[bytes], window: int) -> int:
    """The bytes of all responses. They are dropped in the kernel: they are not read."""
    connection.sendall(b"".join(requests[:window]))
    total = 0
    for answered in range(len(requests)):
        size = _SIZE.unpack(connection.recv(4, socket.MSG_WAITALL))[0]
        total += size
        while size:
            dropped = connection.recv_into(_NOWHERE, min(size, len(_NOWHERE)), socket.MSG_TRUNC)
            if not dropped:
                raise ConnectionError("the broker closed the connection")
            size -= dropped
        if answered + window < len(requests):
            connection.sendall(requests[answered + window])
    return total
