"""A consumer's commits on a real node: what it has read, what it says, and who learns of it."""

import asyncio
from typing import Any

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BadSetting
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.testing.pytest_plugin import Cordwood
from tests.client.reading import consumer, numbers, produce, read


def test_read_offsets_are_committed_and_the_next_member_continues_there(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 10))
    partition = TopicPartition(topic, 0)
    options: dict[str, Any] = {"group_id": topic, "enable_auto_commit": False}

    async def main() -> None:
        async with consumer(cordwood.bootstrap, **options) as source:
            source.assign([partition])
            assert await source.committed(partition) == {partition: None}
            await read(source, 4, max_records=4)
            await source.commit()
            assert await source.committed() == {partition: OffsetAndMetadata(4, "", 0)}
            await read(source, 2, max_records=2)
        async with consumer(cordwood.bootstrap, **options) as source:
            source.assign([partition])
            assert (await source.getone()).offset == 4

    asyncio.run(main())


def test_a_commit_between_two_batches_is_of_those_that_were_given(cordwood: Cordwood) -> None:
    """And not of other partitions' that arrived with them."""
    topic = cordwood.topic(partitions=3)
    for index in range(3):
        produce(cordwood.bootstrap, topic, numbers(0, 5), partition=index)

    async def main() -> None:
        async with consumer(cordwood.bootstrap, group_id=topic, enable_auto_commit=False) as source:
            source.assign([TopicPartition(topic, index) for index in range(3)])
            given = dict.fromkeys(source.assignment(), 0)
            async for partition, records in source.batches(max_records=100):
                given[partition] += len(records)
                await source.commit()
                committed = await source.committed()
                assert {place: at.offset for place, at in committed.items() if at is not None and at.offset} == {
                    place: count for place, count in given.items() if count
                }
                if sum(given.values()) == 15:
                    break

    asyncio.run(main())


def test_an_explicit_commit_keeps_its_metadata(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with consumer(cordwood.bootstrap, group_id=topic) as source:
            await source.commit({partition: (7, "half way")})
            assert await source.committed(partition) == {partition: OffsetAndMetadata(7, "half way", None)}
            with pytest.raises(BadSetting):
                await source.commit({partition: -1})

    asyncio.run(main())


def test_commit_callbacks_run_while_waiting_for_records(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 1))
    partition = TopicPartition(topic, 0)

    class Listening:
        def __init__(self) -> None:
            self.heard: list[Any] = []

        def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
            self.heard.append(offsets)

    async def main() -> None:
        interceptor = Listening()
        heard = asyncio.Event()
        told: list[Any] = []

        async def callback(offsets: Any, error: Any) -> None:
            told.append((offsets, error))
            heard.set()

        options: dict[str, Any] = {"enable_auto_commit": False, "interceptors": [interceptor]}
        async with consumer(cordwood.bootstrap, group_id=topic, **options) as source:
            source.assign([partition])
            await read(source, 1)
            source.commit_async(callback=callback)
            reading = asyncio.create_task(source.getone())
            async with asyncio.timeout(30):
                await heard.wait()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
        expected = {partition: OffsetAndMetadata(1, "", 0)}
        assert told == [(expected, None)]
        assert interceptor.heard == [expected]

    asyncio.run(main())


def test_automatic_commits_happen_while_waiting_and_at_the_end(cordwood: Cordwood) -> None:
    topic = cordwood.topic()
    produce(cordwood.bootstrap, topic, numbers(0, 10))
    partition = TopicPartition(topic, 0)

    async def main() -> None:
        async with (
            consumer(cordwood.bootstrap, group_id=topic, enable_auto_commit=False) as watching,
            consumer(cordwood.bootstrap, group_id=topic, auto_commit_interval_ms=20) as source,
        ):
            source.assign([partition])
            await read(source, 4, max_records=4)
            source.pause(partition)
            reading = asyncio.create_task(source.poll(30_000))
            while (await watching.committed(partition))[partition] is None:
                pass
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            source.resume(partition)
            async for record in source:
                if record.offset == 6:
                    break
            await source.close()
            assert (await watching.committed(partition))[partition] == OffsetAndMetadata(7, "", 0)

    asyncio.run(main())
