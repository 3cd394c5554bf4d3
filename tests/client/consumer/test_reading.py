"""A consumer and a real node: what it reads of the partitions that it chose itself."""

import asyncio
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import (
    BadSetting,
    Closed,
    IllegalState,
    NoOffsetForPartition,
    OffsetOutOfRange,
    SerializationFailed,
)
from cordwood.client.offset_types import OffsetAndTimestamp
from cordwood.testing.pytest_plugin import Cordwood
from cordwood.wire.record import ConsumerRecord
from tests.client.fetched_data import CODECS
from tests.client.reading import consumer, numbers, produce, read


def values(records: list[ConsumerRecord]) -> list[bytes]:
    return [record.value for record in records]


def test_every_way_to_read_gives_the_same_records(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 1000))
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with consumer(cordwood.bootstrap, max_poll_records=70) as source:
            source.assign([partition])
            polled = await read(source, 1000)
            assert values(polled) == numbers(0, 1000)
            assert [record.offset for record in polled] == list(range(1000))

            source.seek(partition, 0)
            assert [await source.getone() for _ in range(1000)] == polled

            source.seek(partition, 0)
            iterated = []
            async for record in source:
                iterated.append(record)
                if len(iterated) == 1000:
                    break
            assert iterated == polled

            source.seek(partition, 0)
            batched: list[ConsumerRecord] = []
            async for where, batch in source.batches(max_records=300):
                assert where == partition
                batched += batch
                if len(batched) == 1000:
                    break
            assert batched == polled

    asyncio.run(main())


def test_arrow_has_the_same_records_in_columns(cordwood: Cordwood) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    topic = cordwood.topic(partitions=2)
    for partition in (0, 1):
        produce(cordwood.bootstrap, topic, numbers(0, 500), partition=partition)

    async def main() -> list[Any]:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
            batches = []
            async for batch in source.arrow(headers=True, timeout_ms=1000):
                batches.append(batch)
                if sum(each.num_rows for each in batches) == 1000:
                    break
            assert await source.position(TopicPartition(topic, 1)) == 500
            return batches

    table = pyarrow.Table.from_batches(asyncio.run(main()))
    assert table.column_names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    ordered = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert ordered.column("value").to_pylist() == numbers(0, 500) * 2
    assert set(ordered.column("topic").to_pylist()) == {topic}


def test_other_reads_continue_where_an_iteration_stopped(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 100))
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([partition])
            async for record in source:
                if record.offset == 9:
                    break
            assert await source.position(partition) == 10
            assert (await source.getone()).offset == 10
            assert values(await read(source, 20, max_records=20)) == numbers(11, 31)
            async for record in source:
                assert record.offset == 31
                break
            async for batch in source.arrow():
                assert batch.column("offset").to_pylist() == list(range(32, 100))
                break

    asyncio.run(main())


def test_a_seek_or_a_pause_within_a_loop_counts_at_once(cordwood: Cordwood) -> None:
    topic = cordwood.topic(partitions=2)
    for partition in (0, 1):
        produce(cordwood.bootstrap, topic, numbers(0, 20), partition=partition)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([first])
            seen = []
            async for record in source:
                seen.append(record.offset)
                if seen == [0, 1, 2]:
                    source.seek(first, 15)
                if record.offset == 19:
                    break
            assert seen == [0, 1, 2, 15, 16, 17, 18, 19]

            source.assign([first, second])
            source.seek_to_beginning()
            order = []
            async for record in source:
                order.append(record.partition)
                if len(order) == 1:
                    source.pause(TopicPartition(topic, record.partition))
                if len(order) == 21:
                    break
            assert order[1:] == [1 - order[0]] * 20
            assert source.paused() == {TopicPartition(topic, order[0])}
            source.resume(*source.paused())
            assert len(await read(source, 19)) == 19

    asyncio.run(main())


def test_calls_that_are_cancelled_lose_nothing(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 300))

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([TopicPartition(topic, 0)])
            seen: list[ConsumerRecord] = []
            impatience_s = 0.0
            while len(seen) < 300:
                try:
                    found = await asyncio.wait_for(source.poll(1000, max_records=50), impatience_s)
                except TimeoutError:
                    impatience_s += 0.001
                else:
                    for records in found.values():
                        seen += records
            assert values(seen) == numbers(0, 300)

    asyncio.run(main())


@pytest.mark.parametrize("codec", [codec.name.lower() for codec in CODECS])
def test_every_codec_of_another_client_is_read(cordwood: Cordwood, codec: str) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 200), options={"compression.type": codec})

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([TopicPartition(topic, 0)])
            assert values(await read(source, 200)) == numbers(0, 200)

    asyncio.run(main())


def test_log_append_time_is_reported(cordwood: Cordwood) -> None:
    topic = cordwood.topic(configs={"message.timestamp.type": "LogAppendTime"})
    produce(cordwood.bootstrap, topic, [b"v"])

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([TopicPartition(topic, 0)])
            assert (await source.getone()).timestamp_type == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("isolation", "expected"),
    [("read_uncommitted", [b"aborted", b"committed"]), ("read_committed", [b"committed"])],
)
def test_aborted_records_are_not_returned(cordwood: Cordwood, isolation: str, expected: list[bytes]) -> None:
    topic = cordwood.topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": cordwood.bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    for value in (b"aborted", b"committed"):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(30)
        producer.abort_transaction(30) if value == b"aborted" else producer.commit_transaction(30)
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with consumer(cordwood.bootstrap, isolation_level=isolation) as source:
            source.assign([partition])
            assert values(await read(source, len(expected))) == expected
            # Behind the marker, once that has been passed over.
            while await source.position(partition) != 4:
                await source.poll(100)
            source.seek(partition, 0)
            async for batch in source.arrow():
                assert batch.column("value").to_pylist() == expected
                break

    asyncio.run(main())


def test_without_an_offset_reading_begins_where_auto_offset_reset_says(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 10))
    partition = TopicPartition(topic, 0)

    async def position(reset: str) -> int:
        async with consumer(cordwood.bootstrap, auto_offset_reset=reset) as source:
            source.assign([partition])
            return await source.position(partition)

    assert asyncio.run(position("earliest")) == 0
    assert asyncio.run(position("latest")) == 10
    assert asyncio.run(position("by_duration:PT1H")) == 0
    assert asyncio.run(position("by_duration:PT0S")) == 10


def test_without_offset_and_reset_the_application_gets_an_error_and_may_seek(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 10))
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with consumer(cordwood.bootstrap, auto_offset_reset="none") as source:
            source.assign([partition])
            with pytest.raises(NoOffsetForPartition) as missing:
                await source.poll(10_000)
            assert missing.value.offsets == {partition: None}
            source.seek(partition, 3)
            assert values(await read(source, 7)) == numbers(3, 10)
            source.seek(partition, 1000)
            with pytest.raises(OffsetOutOfRange) as wrong:
                await source.poll(10_000)
            assert wrong.value.offsets == {partition: 1000}

    asyncio.run(main())


def test_a_missing_offset_is_reset(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 10))

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([TopicPartition(topic, 0)])
            source.seek(TopicPartition(topic, 0), 1000)
            assert values(await read(source, 10)) == numbers(0, 10)

    asyncio.run(main())


def test_offsets_are_found_by_place_and_by_time(cordwood: Cordwood) -> None:
    topic = cordwood.topic(partitions=2)
    produce(cordwood.bootstrap, topic, numbers(0, 10))
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            assert await source.beginning_offsets([first, second]) == {first: 0, second: 0}
            assert await source.end_offsets([first, second]) == {first: 10, second: 0}
            source.assign([first])
            record = await source.getone()
            found = await source.offsets_for_times({first: record.timestamp, second: 0})
            assert found[first] == OffsetAndTimestamp(0, record.timestamp, 0)
            assert found[second] is None
            assert await source.partitions_for(topic) == {0, 1}
            assert await source.partitions_for(f"{topic}-not-there") == set()
            assert topic in await source.topics()

    asyncio.run(main())


def test_lag_and_metrics_show_how_much_is_left(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 10))
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([partition])
            assert source.lag(partition) is None
            await read(source, 4, max_records=4)
            assert source.lag(partition) == 6
            assert source.highwater(partition) == 10
            told = source.metrics()
            assert told["records-consumed-total"] == 4
            assert told[f"records-lag.{partition}"] == 6

    asyncio.run(main())


def test_an_undeserializable_record_is_reported_and_may_be_skipped(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, [b"1", b"x", b"3"])
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with consumer(cordwood.bootstrap, value_deserializer=int) as source:
            source.assign([partition])
            assert [record.value for record in await read(source, 1)] == [1]
            with pytest.raises(SerializationFailed, match="offset 1"):
                await source.poll(10_000)
            assert await source.position(partition) == 1
            source.seek(partition, 2)
            assert [record.value for record in await read(source, 1)] == [3]

    asyncio.run(main())


def test_interceptors_see_and_change_read_records(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 4))
    partition = TopicPartition(topic, 0)

    class OddOnly:
        def on_consume(self, records: dict[TopicPartition, list[ConsumerRecord]]) -> Any:
            return {where: [each for each in found if each.offset % 2] for where, found in records.items()}

    class Broken:
        def on_consume(self, records: Any) -> Any:
            raise ValueError("broken")

    async def main() -> None:
        async with consumer(cordwood.bootstrap, interceptors=[OddOnly(), Broken()]) as source:
            source.assign([partition])
            assert values(await read(source, 2)) == [b"1", b"3"]
            source.seek_to_beginning()
            assert (await source.getone()).offset == 1
            async for record in source:
                assert record.offset == 3
                break

    asyncio.run(main())


def test_a_consumer_without_anything_to_read_raises(cordwood: Cordwood) -> None:
    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            with pytest.raises(IllegalState, match="nothing to poll"):
                await source.poll()
            with pytest.raises(BadSetting, match="group_id"):
                source.subscribe(["t"])
            with pytest.raises(BadSetting, match="group_id"):
                await source.commit()
            with pytest.raises(IllegalState, match="not assigned"):
                source.seek(TopicPartition("t", 0), 0)
            source.assign([TopicPartition("t", 0)])
            source.assign([])
            with pytest.raises(IllegalState, match="nothing to poll"):
                await source.poll()

    asyncio.run(main())


def test_one_task_reads_at_a_time_and_waiters_are_woken_at_the_end(cordwood: Cordwood) -> None:
    topic = cordwood.topic()

    async def main() -> None:
        async with consumer(cordwood.bootstrap) as source:
            source.assign([TopicPartition(topic, 0)])
            waiting = asyncio.create_task(source.getone())
            while not source._turns.is_taken:
                await asyncio.sleep(0)
            with pytest.raises(IllegalState, match="another task"):
                await source.poll(1000)
            await source.close()
            with pytest.raises(Closed):
                await waiting
            with pytest.raises(Closed):
                await source.poll()

    asyncio.run(main())


def test_a_topic_that_is_made_later_is_read_then(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    later = f"{topic}-later"

    async def main() -> None:
        async with consumer(cordwood.bootstrap, allow_auto_create_topics=False) as source:
            source.assign([TopicPartition(later, 0)])
            assert await source.poll(50) == {}
            cordwood.node.topic(later)
            produce(cordwood.bootstrap, later, [b"v"])
            assert values(await read(source, 1)) == [b"v"]

    asyncio.run(main())


def test_a_recreated_topic_is_read_from_the_reset_position(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 10))
    admin = AdminClient({"bootstrap.servers": cordwood.bootstrap})

    async def main() -> None:
        async with consumer(cordwood.bootstrap, allow_auto_create_topics=False) as source:
            source.assign([TopicPartition(topic, 0)])
            assert len(await read(source, 10)) == 10
            admin.delete_topics([topic])[topic].result()
            await source.poll(50)
            cordwood.node.topic(topic)
            produce(cordwood.bootstrap, topic, [b"anew"])
            assert values(await read(source, 1)) == [b"anew"]

    asyncio.run(main())
