"""Reading by assignment: from anywhere, to the end and beyond it, by offset and by time."""

import pytest

from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.kafka_client import (
    EARLIEST,
    LATEST,
    Client,
    Reading,
    Record,
    Refused,
    Sending,
    read,
    refusal_of,
)
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

ISOLATIONS = ("read_uncommitted", "read_committed")


@pytest.fixture
def numbers(librdkafka: LibrdkafkaClient, topic: str) -> str:
    """A topic with the records 0 to 999 in batches of a hundred."""
    librdkafka.create_topic(topic)
    for hundred in range(10):
        librdkafka.produce(topic, [Record(b"%d" % i) for i in range(100 * hundred, 100 * hundred + 100)])
    return topic


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_every_record_is_read_in_order(client: Client, numbers: str, isolation: str) -> None:
    got = read(client, numbers, 1000, isolation=isolation)
    assert [(record.offset, record.value) for record in got] == [(i, b"%d" % i) for i in range(1000)]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_reading_starts_in_the_middle_of_a_batch(client: Client, numbers: str, isolation: str) -> None:
    got = read(client, numbers, 450, start=550, isolation=isolation)
    assert [record.offset for record in got] == list(range(550, 1000))


def test_reading_starts_at_the_beginning_where_that_is_requested(client: Client, numbers: str) -> None:
    assert [record.offset for record in read(client, numbers, 3, start=EARLIEST)] == [0, 1, 2]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_reader_at_the_end_waits_for_new_records(
    client: Client, librdkafka: LibrdkafkaClient, numbers: str, isolation: str
) -> None:
    with Reading(client.reader(numbers, start=1000, isolation=isolation)) as reading:
        assert reading.reader.poll(0.3) == []
        librdkafka.produce(numbers, [Record(b"new")])
        assert [(record.offset, record.value) for record in reading.take(1)] == [(1000, b"new")]
        assert reading.reader.poll(0.3) == []
        librdkafka.produce(numbers, [Record(b"newer")])
        assert [(record.offset, record.value) for record in reading.take(1)] == [(1001, b"newer")]


def test_the_latest_offset_skips_existing_records(client: Client, librdkafka: LibrdkafkaClient, numbers: str) -> None:
    with Reading(client.reader(numbers, start=LATEST)) as reading:
        # Where the end was looked up shows only in what follows: send until something comes.
        sent = 0
        while not (polled := reading.reader.poll(0.3)):
            librdkafka.produce(numbers, [Record(b"after-%d" % sent)])
            sent += 1
        assert polled[0].offset >= 1000


def test_first_and_end_offsets_are_returned(client: Client, numbers: str) -> None:
    assert client.watermarks(numbers) == (0, 1000)


def test_an_empty_partition_begins_and_ends_at_zero(client: Client, librdkafka: LibrdkafkaClient, topic: str) -> None:
    librdkafka.create_topic(topic, partitions=2)
    assert client.watermarks(topic, partition=1) == (0, 0)


def test_an_offset_past_the_end_is_out_of_range(librdkafka: LibrdkafkaClient, numbers: str) -> None:
    with pytest.raises(Refused) as refused:
        read(librdkafka, numbers, 1, start=5000)
    # librdkafka reports it under its own code when it may not reset: _AUTO_OFFSET_RESET.
    assert refused.value.code == -140
    assert "out of range" in str(refused.value).lower()


def test_an_offset_below_the_log_start_is_out_of_range(librdkafka: LibrdkafkaClient, numbers: str) -> None:
    librdkafka.delete_records(numbers, 500)
    with pytest.raises(Refused) as refused:
        read(librdkafka, numbers, 1, start=499)
    assert "out of range" in str(refused.value).lower()
    assert read(librdkafka, numbers, 1, start=500)[0].offset == 500


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_offsets_are_found_by_time(client: Client, librdkafka: LibrdkafkaClient, topic: str, codec: str) -> None:
    start_ms = 1_600_000_000_000
    librdkafka.create_topic(topic)
    for tens in range(3):
        records = [Record(b"x", timestamp_ms=start_ms + 1000 * (10 * tens + i)) for i in range(10)]
        librdkafka.produce(topic, records, how=Sending(compression=codec))
    assert client.offset_for_time(topic, 0) == 0
    assert client.offset_for_time(topic, start_ms) == 0
    assert client.offset_for_time(topic, start_ms + 1) == 1
    assert client.offset_for_time(topic, start_ms + 14_500) == 15
    assert client.offset_for_time(topic, start_ms + 29_000) == 29
    assert client.offset_for_time(topic, start_ms + 29_001) in (None, 30)


def test_a_time_is_looked_up_among_times_that_do_not_ascend(
    client: Client, librdkafka: LibrdkafkaClient, topic: str
) -> None:
    start_ms = 1_600_000_000_000
    times = [5000, 1000, 9000, 2000, 9500, 3000]
    librdkafka.create_topic(topic)
    for later_ms in times:
        librdkafka.produce(topic, [Record(b"x", timestamp_ms=start_ms + later_ms)])
    assert client.offset_for_time(topic, start_ms + 500) == 0
    assert client.offset_for_time(topic, start_ms + 5001) == 2
    assert client.offset_for_time(topic, start_ms + 9001) == 4


def test_several_partitions_are_read_at_once(librdkafka: LibrdkafkaClient, client: Client, topic: str) -> None:
    librdkafka.create_topic(topic, partitions=3)
    readings = [Reading(client.reader(topic, partition=partition, start=0)) for partition in range(3)]
    try:
        for partition in (2, 0, 1):
            librdkafka.produce(topic, [Record(b"%d" % partition)] * 20, partition=partition)
        for partition, reading in enumerate(readings):
            assert {record.value for record in reading.take(20)} == {b"%d" % partition}
    finally:
        for reading in readings:
            reading.reader.close()


# librdkafka and kcat raise their own limits as they go.
@pytest.mark.parametrize("client", ["kafka-python", "aiokafka", "cordwood"], indirect=True)
def test_a_batch_that_is_larger_than_a_fetch_may_be_is_read_all_the_same(
    client: Client, librdkafka: LibrdkafkaClient, topic: str
) -> None:
    sent = [b"%d" % i + b"x" * 100_000 for i in range(5)]
    for value in sent:
        librdkafka.produce(topic, [Record(value)])
    with Reading(client.reader(topic, start=0, max_bytes=1000)) as reading:
        assert [record.value for record in reading.take(5)] == sent


def test_reading_does_not_create_a_topic(librdkafka: LibrdkafkaClient, topic: str) -> None:
    reader = librdkafka.reader(topic, start=0)
    # It may wait for the topic, or say that it is unknown.
    assert refusal_of(lambda: reader.poll(0.5)) in (None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    reader.close()
    assert topic not in librdkafka.topic_names()
