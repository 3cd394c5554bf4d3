"""Streaming reads as Spark's driver plans them, from a real node."""

import pytest

from tests.foreign_clients.node_process import NodeProcess
from tests.spark.source_reading import create, fill, numbered, stream_reader, values

pytest.importorskip("pyspark", minversion="4.2")

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from cordwood import Admin, Producer, TopicPartition
from cordwood.spark.errors import DataLoss
from cordwood.spark.source.options import stream_options

ALL = ReadAllAvailable()


def test_a_stream_starts_at_the_end_and_reads_new_records(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 3)
    reader = stream_reader(node.bootstrap, topic)
    start = reader.initialOffset()
    assert start == {topic: {"0": 3}}
    assert reader.latestOffset(start, ALL) == start
    fill(producer, topic, 2, first=3)
    end = reader.latestOffset(start, ALL)
    assert end == {topic: {"0": 5}}
    assert values(reader, reader.partitions(start, end)) == numbered(2, first=3)


def test_the_first_batch_from_latest_is_empty_so_that_the_checkpoint_keeps_its_start(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    reader = stream_reader(node.bootstrap, topic)
    start = reader.initialOffset()
    fill(producer, topic, 2)
    assert reader.latestOffset(start, ALL) == start
    # Killed in that batch, the query begins again from what is the end now, and has to do the batch again.
    again = stream_reader(node.bootstrap, topic)
    later = again.initialOffset()
    assert later != start
    assert again.partitions(later, start) == []
    assert again.latestOffset(start, ALL) == {topic: {"0": 2}}


def test_a_stream_from_the_beginning_reads_at_once(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 2)
    reader = stream_reader(node.bootstrap, topic, startingOffsets="earliest")
    start = reader.initialOffset()
    assert values(reader, reader.partitions(start, reader.latestOffset(start, ALL))) == numbered(2)


def test_a_stream_from_a_missing_offset_does_not_start(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 2)
    beyond = f'{{"{topic}":{{"0":5}}}}'
    with pytest.raises(DataLoss, match=f"startingOffsets has offset 5 of topic {topic} partition 0"):
        stream_reader(node.bootstrap, topic, startingOffsets=beyond).initialOffset()
    lenient = stream_reader(node.bootstrap, topic, startingOffsets=beyond, failOnDataLoss="false")
    assert lenient.initialOffset() == {topic: {"0": 2}}


def test_a_limit_applies_unless_spark_requests_everything(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic, 2)
    fill(producer, topic, 30)
    fill(producer, topic, 10, partition=1)
    reader = stream_reader(node.bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(8)
    start = reader.initialOffset()
    assert reader.latestOffset(start, limit) == {topic: {"0": 6, "1": 2}}
    assert reader.latestOffset(start, ALL) == {topic: {"0": 30, "1": 10}}
    assert reader.reportLatestOffset() == {topic: {"0": 30, "1": 10}}


def test_a_limit_of_bytes_is_based_on_the_size_of_the_log(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    for _ in range(100):
        producer.send(topic, bytes(1_000)).result()
    reader = stream_reader(node.bootstrap, topic, startingOffsets="earliest", maxBytesPerTrigger="10700")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    # A batch of one record of 1,000 bytes has about 70 more.
    assert end == {topic: {"0": 10}}


def test_a_batch_waits_for_the_least_of_offsets(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 1)
    reader = stream_reader(node.bootstrap, topic, startingOffsets="earliest", minOffsetsPerTrigger="5")
    limit = reader.getDefaultReadLimit()
    start = reader.latestOffset(reader.initialOffset(), limit)
    assert start == {topic: {"0": 1}}
    fill(producer, topic, 4, first=1)
    assert reader.latestOffset(start, limit) == start
    fill(producer, topic, 1, first=5)
    assert reader.latestOffset(start, limit) == {topic: {"0": 6}}


def test_available_now_ends_where_the_topic_ended_when_it_began(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 4)
    reader = stream_reader(
        node.bootstrap, topic, startingOffsets="earliest", maxOffsetsPerTrigger="3", minOffsetsPerTrigger="2"
    )
    reader.prepareForTriggerAvailableNow()
    fill(producer, topic, 4, first=4)
    admin.create_partitions({topic: 2})
    limit = reader.getDefaultReadLimit()
    ends = [reader.initialOffset()]
    for _ in range(3):
        ends.append(reader.latestOffset(ends[-1], limit))
    assert [end[topic]["0"] for end in ends] == [0, 3, 4, 4]
    assert all(end[topic].get("1", 0) == 0 for end in ends)


def test_new_partitions_and_topics_are_read_from_their_beginning(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, f"{topic}-a")
    reader = stream_reader(node.bootstrap, None, subscribePattern=f"{topic}-.", startingOffsets="earliest")
    start = reader.initialOffset()
    admin.create_partitions({f"{topic}-a": 2})
    create(admin, f"{topic}-b")
    fill(producer, f"{topic}-a", 2, partition=1)
    fill(producer, f"{topic}-b", 2, first=2)
    end = reader.latestOffset(start, ALL)
    assert end == {f"{topic}-a": {"0": 0, "1": 2}, f"{topic}-b": {"0": 2}}
    assert values(reader, reader.partitions(start, end)) == numbered(4)


def test_a_new_partition_that_has_lost_records_already_is_a_loss(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    start = stream_reader(node.bootstrap, topic, startingOffsets="earliest").initialOffset()
    admin.create_partitions({topic: 2})
    fill(producer, topic, 5, partition=1)
    admin.delete_records({TopicPartition(topic, 1): 3})
    strict = stream_reader(node.bootstrap, topic, startingOffsets="earliest")
    with pytest.raises(DataLoss, match=f"topic {topic} partition 1: .* begins at offset 3 instead of 0"):
        strict.latestOffset(start, ALL)
    lenient = stream_reader(node.bootstrap, topic, startingOffsets="earliest", failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    assert values(lenient, lenient.partitions(start, end)) == numbered(2, first=3)


def test_a_topic_made_again_is_a_loss_with_both_offsets(
    node: NodeProcess, admin: Admin, producer: Producer, topic: str
) -> None:
    create(admin, topic)
    fill(producer, topic, 1)
    start = {topic: {"0": 5}}
    with pytest.raises(DataLoss, match=f"{topic} partition 0: it ends at offset 1, but offset 5 was already read"):
        stream_reader(node.bootstrap, topic).latestOffset(start, ALL)
    lenient = stream_reader(node.bootstrap, topic, failOnDataLoss="false")
    end = lenient.latestOffset(start, ALL)
    assert end == {topic: {"0": 1}}
    assert lenient.partitions(start, end) == []


def test_a_deleted_topic_is_a_loss_or_skipped(node: NodeProcess, admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic)
    both = f"{topic},{topic}-gone"
    start = {topic: {"0": 0}, f"{topic}-gone": {"0": 7}}
    with pytest.raises(Exception, match=f"{topic}-gone does not exist or cannot be read"):
        stream_reader(node.bootstrap, both).latestOffset(start, ALL)
    assert stream_reader(node.bootstrap, both, failOnDataLoss="false").latestOffset(start, ALL) == {topic: {"0": 0}}


def test_progress_is_committed_to_a_group(node: NodeProcess, admin: Admin, producer: Producer, topic: str) -> None:
    create(admin, topic)
    fill(producer, topic, 5)
    group = f"{topic}-group"
    reader = stream_reader(node.bootstrap, topic, startingOffsets="earliest", commitGroup=group)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    # Everything before the next start has been processed.
    reader.latestOffset(end, ALL)
    reader.stop()
    (committed,) = admin.list_consumer_group_offsets([group])[group].values()
    assert committed.offset == 5


def test_stream_options_reach_the_reader() -> None:
    options = stream_options({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", "maxTriggerDelay": "2s"})
    assert options.limits.max_trigger_delay_ms == 2_000
