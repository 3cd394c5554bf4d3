"""Beginners' mistakes: a mistyped name, an unreadable record, a failing callback, no broker."""

import asyncio
import copy
import logging
import pickle
import traceback
import uuid
from collections.abc import Iterator

import pytest

import cordwood.testing
from cordwood import (
    Admin,
    CannotReachCluster,
    Consumer,
    IllegalState,
    NewTopic,
    Producer,
    SerializationFailed,
    TopicNotFound,
    TopicPartition,
    aio,
)
from cordwood.client.client import Client
from cordwood.client.errors import BrokerError, GaveUp
from cordwood.client.settings import Settings
from cordwood.runtime.network import Address
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with cordwood.testing.node(settings={"auto.create.topics.enable": "false"}) as node:
        yield node.bootstrap


@pytest.fixture
def topic(bootstrap: str) -> str:
    """One partition with the records 0 to 4."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic(name, partitions=1)])
        admin.until_topics_led([name])
    with Producer(bootstrap_servers=bootstrap) as producer:
        for number in range(5):
            producer.send(name, str(number), partition=0)
    return name


def committed(bootstrap: str, group: str) -> int | None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        offsets = list(admin.list_consumer_group_offsets([group])[group].values())
    return offsets[0].offset if offsets else None


class Broken(Exception):
    """The application's own."""


# ---- work that fails


def test_the_record_that_an_iteration_failed_at_is_not_committed_at_the_end(bootstrap: str, topic: str) -> None:
    def main() -> None:
        with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
            for record in consumer:
                if record.offset == 2:
                    raise Broken

    with pytest.raises(Broken):
        main()
    assert committed(bootstrap, topic) == 2


def test_the_record_that_an_async_iteration_failed_at_is_not_committed_at_the_end(bootstrap: str, topic: str) -> None:
    async def main() -> None:
        async with aio.Consumer(
            topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest"
        ) as consumer:
            async for record in consumer:
                if record.offset == 2:
                    raise Broken

    with pytest.raises(Broken):
        asyncio.run(main())
    assert committed(bootstrap, topic) == 2


def test_the_record_that_work_failed_at_is_not_committed_when_they_are_got_one_by_one(
    bootstrap: str, topic: str
) -> None:
    def main() -> None:
        with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
            while consumer.getone().offset < 2:
                pass
            raise Broken

    with pytest.raises(Broken):
        main()
    assert committed(bootstrap, topic) == 2


def test_the_last_record_of_an_iteration_is_committed_when_nothing_failed(bootstrap: str, topic: str) -> None:
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        for record in consumer:
            if record.offset == 2:
                break
    assert committed(bootstrap, topic) == 3


def test_explicit_commits_stay_if_processing_fails_afterwards(bootstrap: str, topic: str) -> None:
    def main() -> None:
        with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
            for record in consumer:
                consumer.commit()
                if record.offset == 2:
                    raise Broken

    with pytest.raises(Broken):
        main()
    assert committed(bootstrap, topic) == 3


def test_all_records_of_the_last_poll_are_committed_as_in_kafka(bootstrap: str, topic: str) -> None:
    def main() -> None:
        with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
            seen = 0
            while seen < 5:
                seen += sum(len(records) for records in consumer.poll(timeout_ms=1000).values())
            raise Broken

    with pytest.raises(Broken):
        main()
    assert committed(bootstrap, topic) == 5


# ---- a record that does not read


def refuse_two(content: bytes) -> int:
    if content == b"2":
        raise ValueError("two")
    return int(content)


def test_an_unreadable_record_is_reported_with_its_offset_and_can_be_skipped(bootstrap: str, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer=refuse_two) as consumer:
        consumer.assign([partition])
        assert [consumer.getone().value, consumer.getone().value] == [0, 1]
        with pytest.raises(SerializationFailed) as failed:
            consumer.getone()
        assert (failed.value.partition, failed.value.offset) == (partition, 2)
        consumer.seek(partition, 3)
        assert [consumer.getone().value, consumer.getone().value] == [3, 4]


def test_an_async_consumer_reports_the_offset_of_an_unreadable_record(bootstrap: str, topic: str) -> None:
    async def main() -> SerializationFailed:
        async with aio.Consumer(
            bootstrap_servers=bootstrap, auto_offset_reset="earliest", value_deserializer=refuse_two
        ) as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            with pytest.raises(SerializationFailed) as failed:
                async for _ in consumer:
                    pass
            return failed.value

    error = asyncio.run(main())
    assert (error.partition, error.offset) == (TopicPartition(topic, 0), 2)


def test_record_metadata_survives_pickling() -> None:
    error = SerializationFailed("no", TopicPartition("t", 0), 7)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (str(other), other.partition, other.offset) == ("no", TopicPartition("t", 0), 7)


# ---- what is not there


def test_a_consumer_says_once_that_a_topic_is_not_there(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    missing = f"{topic}-mistyped"
    with caplog.at_level(logging.WARNING), Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(missing, 0), TopicPartition(topic, 0)])
        while not any(missing in message for message in caplog.messages):
            consumer.poll(timeout_ms=100)
        # Long enough to be asked for some times more.
        for _ in range(20):
            consumer.poll(timeout_ms=100)
    told = [message for message in caplog.messages if missing in message]
    assert told == [f"Topic {missing} does not exist yet; consuming starts once it is created"]


def test_a_consumer_says_once_that_a_partition_is_not_there(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), Consumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([TopicPartition(topic, 7)])
        while not any(topic in message for message in caplog.messages):
            consumer.poll(timeout_ms=100)
        for _ in range(10):
            consumer.poll(timeout_ms=100)
    told = [message for message in caplog.messages if f"{topic}-7" in message]
    assert told == [f"Partition {topic}-7 does not exist yet: the topic has 1 partitions"]


# ---- what helps


def shown(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(error))


def test_a_traceback_shows_advice() -> None:
    error = TopicNotFound(subject="topic orders")
    assert "what to do: create it, or check the name" in shown(error)
    assert "what to do" not in str(error)
    assert "what to do: create it, or check the name" in shown(GaveUp(error, 1.0))
    assert "what to do: stop its members first" in shown(BrokerError(ErrorCode.NON_EMPTY_GROUP))


def test_advice_is_not_repeated() -> None:
    error = IllegalState("no transaction: begin one")
    error.advise("begin one")
    assert shown(error).count("begin one") == 1
    error = IllegalState("no transaction")
    error.advise("begin one")
    error.advise("init first")
    assert "begin one" not in shown(error)
    assert shown(pickle.loads(pickle.dumps(error))).count("init first") == 1


# ---- unreachable brokers


def test_the_first_connection_is_bounded_by_the_time_of_a_call() -> None:
    async def main() -> None:
        async def keep_silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(keep_silent, "127.0.0.1", 0)
        silent = Address(*server.sockets[0].getsockname()[:2])
        refusing = Address("127.0.0.1", 1)
        # Longer than the test may take: only the first of the two can end it.
        settings = Settings(default_api_timeout_ms=200, socket_connection_setup_timeout_ms=600_000)
        with pytest.raises(CannotReachCluster) as failed:
            await Client.connect([refusing, silent], settings, network=SocketNetwork())
        server.close()
        assert "refused" in str(failed.value)
        assert f"{silent}: no answer within 0.2 s" in str(failed.value)

    asyncio.run(asyncio.wait_for(main(), 60))
