"""Attacks of a broken or malicious client on a broker: each function is one attempt, on its own connections.

An attempt ends when the broker answered or closed the connection, or was given its time. It reports only what no
broker may do: take garbage for a record, or not answer what was right.
"""

import socket
import ssl
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from random import Random
from typing import Any

from crc32c import crc32c

from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import EncodeError
from cordwood.wire.frames import decode_response, encode_request
from cordwood.wire.messages import index, request_class
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from cordwood.wire.records import encode_batch
from cordwood.wire.schema import Request
from tests.wire.message_values import random_message

ANSWER_WITHIN_S = 20.0
# Invalid requests are not awaited.
UNANSWERED_WITHIN_S = 0.05
CRC_POSITION = 17
CRC_START = 21
# The base and the largest timestamp.
TIMES_POSITION = 27
CLIENT_ID = "fuzz"
# Produce requests by topic name.
PRODUCE_VERSION = 9
# More than a connection's share of memory, were it all kept.
UNREAD_REQUESTS = 3000
HELD_CONNECTIONS = 60
# Requests that would really change the cluster if they were well-formed by chance.
SPARED_APIS = {"UnregisterBroker", "UpdateFeatures", "AlterConfigs", "IncrementalAlterConfigs"}
APIS = [key for key, name in index.APIS.items() if name not in SPARED_APIS and list(request_class(key).versions)]


class Unforgivable(Exception):
    """The broker did what it must not."""


@dataclass(slots=True)
class Target:
    host: str
    port: int
    # Records may be sent here; it is not read.
    topic: str
    # APIs and versions of which requests are made. An encoder takes its time to be compiled: they are not all tried.
    requests: Sequence[tuple[int, int]] = ()
    # Open and silent until the end, or until there are too many.
    held: list[socket.socket] = field(default_factory=list)

    def connect(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), ANSWER_WITHIN_S)

    def hold(self, connection: socket.socket) -> None:
        self.held.append(connection)
        while len(self.held) > HELD_CONNECTIONS:
            reset(self.held.pop(0))

    def release(self) -> None:
        while self.held:
            reset(self.held.pop())


Attack = Callable[[Random, Target], None]


def choose_requests(random: Random, target: Target) -> list[tuple[int, int]]:
    """Mostly such as the broker says that it serves."""
    with target.connect() as connection:
        connection.sendall(encode_request(ApiVersionsRequest(), 0, 1, CLIENT_ID))
        _correlation_id, response = decode_response(ApiVersionsResponse, 0, _read_frame(connection))
    all_requests = {(key, version) for key in APIS for version in request_class(key).versions}
    served = {
        (api.api_key, version) for api in response.api_keys for version in range(api.min_version, api.max_version + 1)
    }
    return random.sample(sorted(all_requests & served), 40) + random.sample(sorted(all_requests - served), 5)


# ---- bytes that are no requests


def garbage(random: Random, target: Target) -> None:
    _send_and_see(random, target, random.randbytes(random.choice([1, 3, 4, 50, 5000, 200_000])))


def another_protocol(random: Random, target: Target) -> None:
    hello = ssl.MemoryBIO()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).wrap_bio(ssl.MemoryBIO(), hello, server_hostname="broker")
    with suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    _send_and_see(random, target, random.choice([hello.read(), b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", b"\n" * 100]))


def a_lie_about_the_size(random: Random, target: Target) -> None:
    frame = _any_request(random, target)
    (size,) = struct.unpack_from(">i", frame)
    lies = [
        -1,
        -(1 << 31),
        0,
        1,
        7,
        8,
        0x7FFF_FFFF,
        100 << 20,
        (100 << 20) + 1,
        size - 1,
        size + 1,
        size * 2,
        size // 2,
    ]
    _send_and_see(random, target, struct.pack(">i", random.choice(lies)) + frame[4:])


def a_frame_that_is_cut(random: Random, target: Target) -> None:
    frame = _any_request(random, target)
    _send_and_see(random, target, frame[: random.randrange(len(frame))])


def a_frame_with_wrong_bytes(random: Random, target: Target) -> None:
    frame = bytearray(_any_request(random, target))
    for _ in range(random.choice([1, 1, 2, 5, 20])):
        frame[random.randrange(4, len(frame))] = random.randrange(256)
    _send_and_see(random, target, bytes(frame))


def a_size_inside_a_frame_that_is_a_lie(random: Random, target: Target) -> None:
    """Counts and lengths of two thousand millions where the fields are."""
    frame = bytearray(_any_request(random, target))
    place = random.randrange(8, max(9, len(frame) - 4))
    lie = random.choice([b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f", b"\xff" * 10])
    frame[place : place + len(lie)] = lie
    struct.pack_into(">i", frame, 0, len(frame) - 4)
    _send_and_see(random, target, bytes(frame))


# ---- requests that are none of the broker's


def a_version_that_does_not_exist(random: Random, target: Target) -> None:
    key = random.choice(APIS)
    version = random.choice([-1, -32768, 32767, request_class(key).versions.high + 1])
    _send_and_see(random, target, _framed(struct.pack(">hhih", key, version, 1, 4) + b"fuzz" + random.randbytes(30)))


def an_api_that_does_not_exist(random: Random, target: Target) -> None:
    key = random.choice([-1, 999, 32767, -32768, max(index.APIS) + 1])
    header = struct.pack(">hhih", key, random.choice([0, 3, -1]), 1, 4) + b"fuzz"
    _send_and_see(random, target, _framed(header + random.randbytes(random.choice([0, 30]))))


def a_request_that_makes_no_sense(random: Random, target: Target) -> None:
    """Well-formed, of any API and version, with implausible values."""
    with target.connect() as connection:
        connection.sendall(_senseless_request(random, target))
        _await_anything(connection)


def many_requests_at_once(random: Random, target: Target) -> None:
    """Those before the bad one are answered."""
    good = random.randrange(1, 20)
    frames = [encode_request(ApiVersionsRequest(), 0, number, CLIENT_ID) for number in range(good)]
    with target.connect() as connection:
        connection.sendall(b"".join(frames) + struct.pack(">i", -5) + random.randbytes(20))
        for number in range(good):
            answer = _read_frame(connection)
            if struct.unpack_from(">i", answer)[0] != number:
                raise Unforgivable(f"answer {number} came as {answer[:4]!r}")


# ---- records that are none


def garbage_for_records(random: Random, target: Target) -> None:
    batch = bytes(_batch(random))
    kinds = [
        b"",
        b"\x00",
        random.randbytes(random.choice([10, 61, 500, 100_000])),
        batch[: random.randrange(len(batch))],
        batch + random.randbytes(random.choice([1, 11, 12, 61, 100])),
        batch * random.randrange(2, 5),
    ]
    _produce(random, target, random.choice(kinds))


def records_with_a_wrong_checksum(random: Random, target: Target) -> None:
    batch = _batch(random)
    batch[random.randrange(CRC_START, len(batch))] ^= 1 << random.randrange(8)
    code = _produce(random, target, bytes(batch), acks=random.choice([1, -1]))
    if code == ErrorCode.NONE:
        raise Unforgivable("a batch with a wrong checksum was taken")


def records_that_are_wrong_under_a_right_checksum(random: Random, target: Target) -> None:
    batch = _batch(random)
    for _ in range(random.choice([1, 1, 3, 10])):
        batch[random.randrange(CRC_START, len(batch))] = random.choice([0, 1, 127, 128, 255, random.randrange(256)])
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(batch[CRC_START:]))
    _produce(random, target, bytes(batch))


def records_with_strange_times_and_offsets(random: Random, target: Target) -> None:
    """Offsets that do not count up, which the broker has to give again, and times before time began."""
    offsets = [0, *sorted(random.sample(range(1, 1000), random.randrange(5)))]
    records = [(offset, random.randrange(1 << 40), b"key", b"value", ()) for offset in offsets]
    batch = encode_batch(records, last_offset=len(offsets) - 1, codec=random.choice(list(Codec)))
    times = [-1, -2, -(1 << 63), (1 << 63) - 1, -random.randrange(1 << 62), 0]
    struct.pack_into(">qq", batch, TIMES_POSITION, random.choice(times), random.choice(times))
    struct.pack_into(">I", batch, CRC_POSITION, crc32c(batch[CRC_START:]))
    _produce(random, target, bytes(batch))


def a_lie_about_the_length_of_records(random: Random, target: Target) -> None:
    batch = bytes(_batch(random))
    frame = encode_request(_produce_request(target, batch, random.choice([0, 1, -1])), PRODUCE_VERSION, 1, CLIENT_ID)
    before, _, after = frame.partition(batch)
    # A length of up to 16 KiB is a varint of two bytes, one of less than 127 of one.
    before = before[: -1 if len(batch) < 127 else -2]
    lies = [
        b"\xff" * 10,
        b"\xff\xff\xff\xff\x0f",
        b"\xff\xff\xff\xff\x07",
        b"\x80" * 5,
        b"\x00",
        b"\x01",
        b"\x80\x01",
        b"",
    ]
    _send_and_see(random, target, _framed((before + random.choice(lies) + batch + after)[4:]))


def records_that_swell(random: Random, target: Target) -> None:
    """Small when compressed, and large when not."""
    _produce(random, target, _swelling_batch(random.choice([Codec.GZIP, Codec.LZ4, Codec.ZSTD])))


# ---- time


def slow_bytes(random: Random, target: Target) -> None:
    """One at a time, each in its own packet, and right in the end."""
    with target.connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in encode_request(ApiVersionsRequest(), 0, 77, CLIENT_ID):
            connection.sendall(bytes([byte]))
        _correlation_id, response = decode_response(ApiVersionsResponse, 0, _read_frame(connection))
        if response.error_code != ErrorCode.NONE:
            raise Unforgivable(f"ApiVersions was answered with error {response.error_code}")


def half_a_request_and_silence(random: Random, target: Target) -> None:
    frame = _any_request(random, target)
    connection = target.connect()
    connection.sendall(frame[: random.randrange(len(frame))])
    target.hold(connection)


def one_direction_closed(random: Random, target: Target) -> None:
    """It says that it will send no more, and still reads."""
    with target.connect() as connection:
        connection.sendall(encode_request(ApiVersionsRequest(), 0, 1, CLIENT_ID))
        connection.shutdown(socket.SHUT_WR)
        _await_anything(connection)


def answers_that_are_not_read(random: Random, target: Target) -> None:
    """Thousands of requests whose megabytes of answers are never read."""
    connection = target.connect()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(0.2)
    frame = encode_request(random.choice([ApiVersionsRequest(), MetadataRequest(topics=None)]), 1, 1, CLIENT_ID)
    # In time the broker reads no more of it, as it should.
    with suppress(TimeoutError):
        connection.sendall(frame * UNREAD_REQUESTS)
    target.hold(connection)


def connections_that_come_and_go(random: Random, target: Target) -> None:
    for _ in range(20):
        connection = target.connect()
        if random.random() < 0.5:
            connection.sendall(encode_request(ApiVersionsRequest(), 0, 1, CLIENT_ID))
        reset(connection)


ATTACKS: tuple[Attack, ...] = (
    garbage,
    another_protocol,
    a_lie_about_the_size,
    a_frame_that_is_cut,
    a_frame_with_wrong_bytes,
    a_size_inside_a_frame_that_is_a_lie,
    a_version_that_does_not_exist,
    an_api_that_does_not_exist,
    a_request_that_makes_no_sense,
    many_requests_at_once,
    garbage_for_records,
    records_with_a_wrong_checksum,
    records_that_are_wrong_under_a_right_checksum,
    records_with_strange_times_and_offsets,
    a_lie_about_the_length_of_records,
    records_that_swell,
    slow_bytes,
    half_a_request_and_silence,
    one_direction_closed,
    answers_that_are_not_read,
    connections_that_come_and_go,
)
# How often each is tried: what keeps the node or its client long is tried less.
_DEAR = (records_that_swell, slow_bytes, answers_that_are_not_read, connections_that_come_and_go)
WEIGHTS = tuple(1 if attack in _DEAR else 10 for attack in ATTACKS)


# ---- what they are made of


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def _any_request(random: Random, target: Target) -> bytes:
    if random.random() < 0.5:
        return _senseless_request(random, target)
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    requests: list[tuple[Request[Any], int]] = [
        (ApiVersionsRequest(client_software_name="fuzz", client_software_version="1"), 3),
        (MetadataRequest(topics=[MetadataRequestTopic(name=target.topic)]), random.choice([1, 4, 9, 12])),
        (
            FetchRequest(
                max_wait_ms=10,
                min_bytes=1,
                max_bytes=1 << 20,
                topics=[FetchTopic(topic=target.topic, partitions=[partition])],
            ),
            random.choice([4, 7, 11, 12]),
        ),
        (_produce_request(target, bytes(_batch(random)), 1), PRODUCE_VERSION),
    ]
    request, version = random.choice(requests)
    return encode_request(request, version, random.randrange(1 << 31), CLIENT_ID)


def _senseless_request(random: Random, target: Target) -> bytes:
    while True:
        key, version = random.choice(target.requests)
        request: Any = random_message(f"{index.APIS[key]}Request", version, random)
        try:
            return encode_request(request, version, random.randrange(1 << 31), CLIENT_ID)
        except EncodeError:
            continue


def _batch(random: Random) -> bytearray:
    records = [
        (i, random.randrange(1 << 41), random.choice([None, b"", b"key"]), random.randbytes(random.randrange(200)), ())
        for i in range(random.randrange(1, 20))
    ]
    idempotent = random.random() < 0.3
    return encode_batch(
        records,
        codec=random.choice(list(Codec)),
        producer_id=random.randrange(1 << 40) if idempotent else -1,
        producer_epoch=0 if idempotent else -1,
        base_sequence=0 if idempotent else -1,
    )


@cache
def _swelling_batch(codec: Codec) -> bytes:
    return bytes(encode_batch([(0, 0, None, bytes(20 << 20), ())], codec=codec))


def _produce_request(target: Target, records: bytes, acks: int) -> ProduceRequest:
    partition = PartitionProduceData(index=0, records=records)
    topic = TopicProduceData(name=target.topic, partition_data=[partition])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[topic])


def _produce(random: Random, target: Target, records: bytes, acks: int | None = None) -> int | None:
    """The error code of the answer; None if the connection was closed instead."""
    acks = random.choice([0, 1, -1, 7]) if acks is None else acks
    with target.connect() as connection:
        connection.sendall(encode_request(_produce_request(target, records, acks), PRODUCE_VERSION, 1, CLIENT_ID))
        if acks == 0:
            return None
        frame = _await_anything(connection)
    if frame is None:
        return None
    _correlation_id, response = decode_response(ProduceResponse, PRODUCE_VERSION, frame)
    return response.responses[0].partition_responses[0].error_code


def _framed(request: bytes) -> bytes:
    return struct.pack(">i", len(request)) + request


def _send_and_see(random: Random, target: Target, sent: bytes) -> None:
    """Sends, and then waits for an answer, or goes, or breaks off."""
    with target.connect() as connection:
        try:
            connection.sendall(sent)
            if random.random() < 0.3:
                connection.shutdown(socket.SHUT_WR)
                _await_anything(connection)
            elif random.random() < 0.5:
                reset(connection)
        except OSError:
            pass  # the broker has closed it already


def _await_anything(connection: socket.socket) -> bytes | None:
    """An answer; None when the connection was closed. A request that waits by its own wish may go unanswered."""
    connection.settimeout(UNANSWERED_WITHIN_S)
    try:
        return _read_frame(connection)
    except (OSError, EOFError):
        return None


def _read_frame(connection: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read_exactly(connection, 4))
    return _read_exactly(connection, size)


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < size:
        piece = connection.recv(min(size - len(pieces), 1 << 20))
        if not piece:
            raise EOFError(f"closed after {len(pieces)} of {size} bytes")
        pieces += piece
    return bytes(pieces)
