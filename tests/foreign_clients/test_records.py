"""Records are read as written, with any pair of clients."""

from collections.abc import Callable
from random import Random
from time import time

import pytest

from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.kafka_client import Address, Client, Record, Sending, Stored, read, read_all, refusal_of
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
READERS = ("librdkafka", "kafka-python", "aiokafka", "kcat", "cordwood")

Connect = Callable[[str, Address], Client]


def contents(records: list[Stored]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.key, record.value) for record in records]


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_every_codec_are_read_by_every_client(
    client: Client, connect: Connect, address: Address, topic: str, codec: str
) -> None:
    sent = [Record(b"value-%d" % i * (1 + i % 40), key=b"key-%d" % i) for i in range(300)]
    client.produce(topic, sent, how=Sending(compression=codec))
    expected = [(record.key, record.value) for record in sent]
    for name in READERS:
        assert contents(read(connect(name, address), topic, len(sent))) == expected, name


def test_acknowledged_offsets_are_those_that_are_read(admin: Client, topic: str) -> None:
    sent = [Record(b"%d" % i) for i in range(100)]
    offsets = admin.produce(topic, sent) + admin.produce(topic, sent)
    assert offsets == list(range(200))
    assert [(record.offset, record.value) for record in read(admin, topic, 200)] == [
        (offset, b"%d" % (offset % 100)) for offset in offsets
    ]


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_records_arrive_with_every_kind_of_acknowledgement(client: Client, topic: str, acks: int) -> None:
    client.produce(topic, [Record(b"first")])
    client.produce(topic, [Record(b"second")], how=Sending(acks=acks))
    assert [record.value for record in read(client, topic, 2)] == [b"first", b"second"]


def test_null_and_empty_keys_and_values_stay_apart(
    admin: Client, connect: Connect, address: Address, topic: str
) -> None:
    sent = [Record(value, key=key) for key in (None, b"", b"k") for value in (None, b"", b"v")]
    # kafka-python takes a record without key and value for a mistake.
    sent = [record for record in sent if record.key is not None or record.value is not None]
    admin.produce(topic, sent)
    for name in READERS:
        got = contents(read(connect(name, address), topic, len(sent)))
        assert got == [(record.key, record.value) for record in sent], name


def test_kcat_writes_null_values_and_empty_ones(connect: Connect, address: Address, topic: str) -> None:
    kcat = connect("kcat", address)
    kcat.produce(topic, [Record(None, key=b"gone")])
    kcat.produce(topic, [Record(b"", key=b"empty")])
    assert contents(read(kcat, topic, 2)) == [(b"gone", None), (b"empty", b"")]


def test_headers_keep_their_order_repetitions_and_nulls(
    client: Client, connect: Connect, address: Address, topic: str
) -> None:
    # kafka-python reads null headers, and refuses to write them.
    null = b"" if client.name == "kafka-python" else None
    headers = (("trace", b"1"), ("origin", b"here"), ("trace", b"2"), ("none", null), ("last", b"z"))
    client.produce(topic, [Record(b"with", headers=headers)])
    client.produce(topic, [Record(b"without")])
    for name in READERS:
        with_headers, without = read(connect(name, address), topic, 2)
        assert with_headers.headers == headers, name
        assert without.headers == (), name


def test_bytes_of_any_value_come_back(admin: Client, connect: Connect, address: Address, topic: str) -> None:
    every_byte = bytes(range(256))
    sent = Record(every_byte * 5, key=every_byte, headers=(("sn\u00f6-\u96ea", every_byte[::-1]),))
    admin.produce(topic, [sent])
    for name in ("librdkafka", "kafka-python", "aiokafka", "cordwood"):
        (got,) = read(connect(name, address), topic, 1)
        assert (got.key, got.value, got.headers) == (sent.key, sent.value, sent.headers), name


def test_create_times_are_kept(admin: Client, connect: Connect, address: Address, topic: str) -> None:
    # A batch's timestamps need not ascend.
    times = [1_000_000_000_000, 1_700_000_000_123, 1_000_000_000_001]
    admin.produce(topic, [Record(b"x", timestamp_ms=timestamp_ms) for timestamp_ms in times])
    for name in READERS:
        got = read(connect(name, address), topic, 3)
        assert [record.timestamp_ms for record in got] == times, name
        assert {record.timestamp_type for record in got} <= {0, None}, name


@pytest.mark.parametrize("codec", CODECS)
def test_append_times_are_the_brokers(client: Client, librdkafka: LibrdkafkaClient, topic: str, codec: str) -> None:
    librdkafka.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time() * 1000)
    client.produce(topic, [Record(b"%d" % i) for i in range(10)], how=Sending(compression=codec))
    after_ms = int(time() * 1000)
    for reader in (client, librdkafka):
        got = read(reader, topic, 10)
        assert {record.timestamp_type for record in got} <= {1, None}
        assert all(before_ms <= record.timestamp_ms <= after_ms for record in got)


def test_append_time_replaces_the_clients_timestamp(admin: Client, librdkafka: LibrdkafkaClient, topic: str) -> None:
    librdkafka.create_topic(topic, configs={"message.timestamp.type": "LogAppendTime"})
    admin.produce(topic, [Record(b"old", timestamp_ms=1_000_000_000_000)])
    (got,) = read(admin, topic, 1)
    assert got.timestamp_ms > 1_700_000_000_000


@pytest.mark.parametrize("codec", CODECS)
def test_large_batches_are_written_and_read_whole(
    client: Client, librdkafka: LibrdkafkaClient, topic: str, codec: str
) -> None:
    # More than one fetch brings (1 MiB a partition), and not to be compressed to nothing.
    noise = Random(codec).randbytes(512).hex().encode()
    sent = [b"%06d" % i + noise for i in range(4000)]
    librdkafka.create_topic(topic, configs={"max.message.bytes": str(16 << 20)})
    client.produce(
        topic, [Record(value) for value in sent], how=Sending(compression=codec, linger_ms=200, batch_bytes=8 << 20)
    )
    assert [record.value for record in read_all(client, topic)] == sent


def test_many_partitions_each_keep_their_own_order(client: Client, librdkafka: LibrdkafkaClient, topic: str) -> None:
    librdkafka.create_topic(topic, partitions=4)
    for partition in range(4):
        client.produce(topic, [Record(b"%d-%d" % (partition, i)) for i in range(50)], partition=partition)
    for partition in range(4):
        assert [(record.offset, record.value) for record in read_all(client, topic, partition=partition)] == [
            (i, b"%d-%d" % (partition, i)) for i in range(50)
        ]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_has_its_own_codec(
    librdkafka: LibrdkafkaClient, connect: Connect, address: Address, topic: str, codec: str
) -> None:
    """Batches are taken apart and put together again; what is in them stays."""
    librdkafka.create_topic(topic, configs={"compression.type": codec})
    sent = []
    for written_with in CODECS:
        batch = [
            Record(
                b"%s-%d" % (written_with.encode(), i),
                key=b"k",
                headers=(("h", b"v"),),
                timestamp_ms=1_600_000_000_000 + i,
            )
            for i in range(50)
        ]
        librdkafka.produce(topic, batch, how=Sending(compression=written_with))
        sent += batch
    for name in READERS:
        got = read(connect(name, address), topic, len(sent))
        assert [Record(r.value, r.key, r.headers, r.timestamp_ms) for r in got] == sent, name
        assert [r.offset for r in got] == list(range(len(sent))), name


def test_tens_of_megabytes_come_back_unchanged(librdkafka: LibrdkafkaClient, topic: str) -> None:
    random = Random(7)
    sent = [random.randbytes(900_000) for _ in range(30)]
    librdkafka.produce(topic, [Record(value) for value in sent])
    assert [record.value for record in read_all(librdkafka, topic)] == sent


def test_times_too_far_ahead_are_refused(admin: Client, topic: str) -> None:
    """An hour, unless the topic says otherwise (`message.timestamp.after.max.ms`)."""
    now_ms = int(time() * 1000)
    admin.produce(topic, [Record(b"soon", timestamp_ms=now_ms + 600_000)])
    refusal = refusal_of(lambda: admin.produce(topic, [Record(b"far", timestamp_ms=now_ms + 2 * 3_600_000)]))
    assert refusal == ErrorCode.INVALID_TIMESTAMP
    assert admin.watermarks(topic) == (0, 1)
