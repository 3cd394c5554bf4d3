"""The clients for threads, on a node of our own, or on Kafka with CORDWOOD_TEST_KAFKA=host:port."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from any_cluster import AnyCluster, any_cluster

from cordwood import (
    BadSetting,
    CannotReachCluster,
    ClientError,
    Closed,
    Consumer,
    IllegalState,
    OffsetAndMetadata,
    Producer,
    SerializationFailed,
    TopicPartition,
)


@pytest.fixture(scope="module")
def node() -> Iterator[AnyCluster]:
    with any_cluster() as cluster:
        yield cluster


@pytest.fixture
def producer(node: AnyCluster) -> Iterator[Producer]:
    with Producer(bootstrap_servers=node.bootstrap, linger_ms=0) as producer:
        yield producer


def consumer_of(node: AnyCluster, *topics: str, **keywords: Any) -> Consumer:
    settings: Any = {"group_id": node.name("group"), "auto_offset_reset": "earliest", **keywords}
    return Consumer(*topics, bootstrap_servers=node.bootstrap, **settings)


def fill(producer: Producer, topic: str, count: int) -> None:
    for number in range(count):
        producer.send(topic, f"{number}", partition=0)
    producer.flush()


# ---- producer


def test_a_record_is_promised_and_delivered(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    metadata = producer.send(topic, "value", key="key", headers=[("h", b"1")]).result(30)
    assert (metadata.topic, metadata.partition, metadata.offset) == (topic, 0, 0)


def test_send_and_wait_returns_where_the_record_is(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    assert [producer.send_and_wait(topic, str(number)).offset for number in range(3)] == [0, 1, 2]


def test_threads_share_a_producer_and_nothing_is_lost_or_twice(node: AnyCluster) -> None:
    topic = node.topic(partitions=4)
    with Producer(bootstrap_servers=node.bootstrap) as producer:

        def work(name: str) -> None:
            for number in range(500):
                producer.send(topic, f"{name} {number}", key=name)

        threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with consumer_of(node, topic) as consumer:
        seen: dict[str, list[int]] = {name: [] for name in "abcd"}
        for record in consumer:
            name, number = record.value.decode().split()
            seen[name].append(int(number))
            if sum(map(len, seen.values())) == 2000:
                break
    assert seen == {name: list(range(500)) for name in "abcd"}


def test_the_end_of_with_delivers_what_was_sent(node: AnyCluster) -> None:
    topic = node.topic()
    with Producer(bootstrap_servers=node.bootstrap, linger_ms=60_000) as producer:
        delivery = producer.send(topic, "value")
        assert not delivery.done()
    assert delivery.result(0).offset == 0


def test_a_closed_producer_takes_nothing(node: AnyCluster) -> None:
    producer = Producer(bootstrap_servers=node.bootstrap)
    producer.close()
    producer.close()
    with pytest.raises(Closed):
        producer.send(node.topic(), "value")


def test_a_value_that_cannot_be_sent_is_refused_at_once(node: AnyCluster, producer: Producer) -> None:
    with pytest.raises(SerializationFailed):
        producer.send(node.topic(), object())


def test_a_callback_hears_of_the_delivery_in_the_producers_thread(node: AnyCluster) -> None:
    heard: list[tuple[int, str]] = []
    done = threading.Event()

    def callback(delivery: Any) -> None:
        heard.append((delivery.result().offset, threading.current_thread().name))
        done.set()

    with Producer(bootstrap_servers=node.bootstrap, linger_ms=60_000) as producer:
        # Before it is sent: one that is done is told of at once.
        producer.send(node.topic(), "value").add_done_callback(callback)
        producer.flush()
    assert done.wait(30)
    assert heard == [(0, "the producer cordwood")]


def test_a_callback_that_would_wait_for_the_producers_own_thread_is_told_so(node: AnyCluster) -> None:
    heard: list[ClientError] = []
    topic = node.topic()

    with Producer(bootstrap_servers=node.bootstrap) as producer:

        def callback(delivery: Any) -> None:
            for wait in (lambda: producer.send_and_wait(topic, "another"), producer.flush, producer.close):
                try:
                    wait()
                except ClientError as error:
                    heard.append(error)

        producer.send(topic, "value").add_done_callback(callback)
        producer.flush(30)
    assert [type(error) for error in heard] == [IllegalState] * 3


def test_many_records_are_one_call_and_one_promise(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    delivered = producer.send_many((topic, f"{number}", "key") for number in range(1000)).result(30)
    assert delivered.record_count == 1000
    assert delivered.last_offsets == {TopicPartition(topic, 0): 999}


def test_columns_of_arrow_are_one_call_and_one_promise(node: AnyCluster, producer: Producer) -> None:
    pa = pytest.importorskip("pyarrow")
    topic = node.topic()
    table = pa.table({"who": ["a", "b", "c"], "what": [b"1", b"2", None]})
    assert producer.send_arrow(table, topic, key="who", value="what").result(30).record_count == 3
    with consumer_of(node, topic) as consumer:
        records = [consumer.getone() for _ in range(3)]
    assert [(record.key, record.value) for record in records] == [(b"a", b"1"), (b"b", b"2"), (b"c", None)]


def send_and_fail(producer: Producer, topic: str) -> None:
    with producer.transaction():
        producer.send(topic, "aborted")
        raise ZeroDivisionError


def test_a_transaction_is_read_when_it_is_committed_and_never_when_it_is_aborted(node: AnyCluster) -> None:
    topic = node.topic()
    with Producer(bootstrap_servers=node.bootstrap, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, "committed")
        with pytest.raises(ZeroDivisionError):
            send_and_fail(producer, topic)
        with producer.transaction():
            producer.send(topic, "committed, too")
    with consumer_of(node, topic, isolation_level="read_committed") as consumer:
        assert [consumer.getone().value for _ in range(2)] == [b"committed", b"committed, too"]


def test_what_was_read_is_committed_with_what_was_made_of_it(node: AnyCluster, producer: Producer) -> None:
    source, target = node.topic(), node.topic()
    fill(producer, source, 3)
    with (
        consumer_of(node, source, enable_auto_commit=False) as consumer,
        Producer(bootstrap_servers=node.bootstrap, transactional_id=node.name("transforms")) as transforming,
    ):
        transforming.init_transactions()
        record = consumer.getone()
        with transforming.transaction():
            transforming.send(target, record.value.upper())
            offsets = {TopicPartition(source, 0): OffsetAndMetadata(record.offset + 1)}
            transforming.send_offsets_to_transaction(offsets, consumer.group_metadata())
        committed = consumer.committed(TopicPartition(source, 0))[TopicPartition(source, 0)]
    assert committed is not None
    assert committed.offset == 1


# ---- consumer


def test_records_come_in_order_by_iteration(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 25)
    with consumer_of(node, topic) as consumer:
        records = iter(consumer)
        assert [next(records).value for _ in range(25)] == [b"%d" % number for number in range(25)]


def test_records_come_in_order_by_poll_and_no_more_than_asked_for(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 100)
    with consumer_of(node, topic, max_poll_records=7) as consumer:
        values: list[bytes] = []
        while len(values) < 100:
            for records in consumer.poll(timeout_ms=1000).values():
                assert len(records) <= 7
                values += [record.value for record in records]
    assert values == [b"%d" % number for number in range(100)]


def test_the_position_is_behind_what_a_poll_gave_not_behind_what_was_handed_over(
    node: AnyCluster, producer: Producer
) -> None:
    topic = node.topic()
    fill(producer, topic, 100)
    with consumer_of(node, topic, max_poll_records=10) as consumer:
        while not consumer.poll(timeout_ms=1000):
            pass
        assert consumer.position(TopicPartition(topic, 0)) == 10
        consumer.commit()
        committed = consumer.committed(TopicPartition(topic, 0))[TopicPartition(topic, 0)]
    assert committed is not None
    assert committed.offset == 10


def test_the_position_is_behind_the_record_that_an_iteration_gave_last(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 100)
    with consumer_of(node, topic) as consumer:
        for record in consumer:
            if record.offset == 41:
                break
        assert consumer.position(TopicPartition(topic, 0)) == 42


def test_a_seek_counts_for_the_next_record_of_a_poll_and_of_an_iteration(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    partition = TopicPartition(topic, 0)
    fill(producer, topic, 100)
    with consumer_of(node, topic, max_poll_records=5) as consumer:
        while not consumer.poll(timeout_ms=1000):
            pass
        consumer.seek(partition, 50)
        while not (polled := consumer.poll(timeout_ms=1000)):
            pass
        assert polled[partition][0].offset == 50
        records = iter(consumer)
        next(records)
        consumer.seek(partition, 70)
        assert next(records).offset == 70


def test_what_is_paused_gives_nothing_though_it_was_handed_over(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 100)
    with consumer_of(node, topic, max_poll_records=5) as consumer:
        while not consumer.poll(timeout_ms=1000):
            pass
        consumer.pause(TopicPartition(topic, 0))
        assert consumer.poll() == {}
        consumer.resume(TopicPartition(topic, 0))
        while not (polled := consumer.poll(timeout_ms=1000)):
            pass
        assert polled[TopicPartition(topic, 0)][0].offset == 5


def test_batches_are_of_one_partition_each(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic(partitions=2)
    for number in range(20):
        producer.send(topic, str(number), partition=number % 2)
    producer.flush()
    seen: dict[int, list[int]] = {0: [], 1: []}
    with consumer_of(node, topic) as consumer:
        for partition, records in consumer.batches():
            seen[partition.partition] += [int(record.value) for record in records]
            if sum(map(len, seen.values())) == 20:
                break
    assert seen == {0: list(range(0, 20, 2)), 1: list(range(1, 20, 2))}


def test_arrow_gives_record_batches_and_ends_when_nothing_comes(node: AnyCluster, producer: Producer) -> None:
    pytest.importorskip("pyarrow")
    topic = node.topic()
    fill(producer, topic, 30)
    with consumer_of(node, group_id=None) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values = [value for batch in consumer.arrow(timeout_ms=1000) for value in batch["value"].to_pylist()]
    assert values == [b"%d" % number for number in range(30)]


class Listener:
    """Notes what it hears, and in which thread; commits before it lets go."""

    def __init__(self, consumer: Consumer) -> None:
        self.consumer = consumer
        self.heard: list[tuple[str, str]] = []

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self.heard.append(("assigned", threading.current_thread().name))

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self.heard.append(("revoked", threading.current_thread().name))
        self.consumer.commit()

    def on_partitions_lost(self, lost: list[TopicPartition]) -> None:
        self.heard.append(("lost", threading.current_thread().name))


def test_listeners_are_called_in_the_thread_that_reads_and_may_call_the_consumer(
    node: AnyCluster, producer: Producer
) -> None:
    topic = node.topic()
    fill(producer, topic, 3)
    group = node.name("listens")
    consumer = consumer_of(node, group_id=group, enable_auto_commit=False)
    listener = Listener(consumer)
    with consumer:
        consumer.subscribe([topic], listener=listener)
        assert consumer.getone().offset == 0
    mine = threading.current_thread().name
    assert listener.heard == [("assigned", mine), ("revoked", mine)]
    with consumer_of(node, topic, group_id=group) as successor:
        assert successor.getone().offset == 1


def test_what_a_listener_raises_is_raised_by_the_call_that_reads(node: AnyCluster) -> None:
    class Fails(Listener):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            raise ZeroDivisionError("the application's own")

    topic = node.topic()
    with consumer_of(node) as consumer:
        consumer.subscribe([topic], listener=Fails(consumer))
        with pytest.raises(ZeroDivisionError, match="the application's own"):
            consumer.getone()


@pytest.mark.parametrize("end", ["close", "unsubscribe"])
def test_a_listener_may_end_what_it_hears_of(node: AnyCluster, producer: Producer, end: str) -> None:
    class Ends(Listener):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            super().on_partitions_assigned(assigned)
            getattr(self.consumer, end)()

    topic = node.topic()
    fill(producer, topic, 3)
    with consumer_of(node) as consumer:
        listener = Ends(consumer)
        consumer.subscribe([topic], listener=listener)
        with pytest.raises(Closed if end == "close" else IllegalState):
            consumer.getone()
        assert [word for word, _ in listener.heard] == ["assigned", "revoked"]


def test_a_callback_of_a_commit_is_called_in_the_thread_that_reads(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    fill(producer, topic, 3)
    heard: list[tuple[Any, str]] = []
    with consumer_of(node, topic, enable_auto_commit=False) as consumer:
        consumer.getone()
        consumer.commit_async(callback=lambda offsets, error: heard.append((error, threading.current_thread().name)))
        while not heard:
            consumer.poll(timeout_ms=100)
    assert heard == [(None, threading.current_thread().name)]


def test_a_second_thread_is_refused_while_the_first_reads(node: AnyCluster) -> None:
    reading = threading.Event()
    refused: list[IllegalState] = []

    class Waits(Listener):
        def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
            reading.set()
            tried.wait()

    tried = threading.Event()
    topic = node.topic()
    with consumer_of(node) as consumer:
        consumer.subscribe([topic], listener=Waits(consumer))

        def try_from_another() -> None:
            reading.wait()
            try:
                consumer.poll()
            except IllegalState as error:
                refused.append(error)
            tried.set()

        other = threading.Thread(target=try_from_another, name="the other")
        other.start()
        while not tried.is_set():
            consumer.poll(timeout_ms=1000)
        other.join()
    assert "serves one thread at a time; give thread the other one of its own" in str(refused[0])


def read_until_interrupted(consumer: Consumer) -> None:
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    consumer.getmany(timeout_ms=None)


def test_control_c_ends_a_poll_that_waits_and_the_consumer_can_be_used_on(node: AnyCluster, producer: Producer) -> None:
    topic = node.topic()
    with consumer_of(node, group_id=None) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.position(TopicPartition(topic, 0)) == 0
        with pytest.raises(KeyboardInterrupt):
            read_until_interrupted(consumer)
        fill(producer, topic, 1)
        assert consumer.getone().offset == 0


def test_interceptors_see_records_whichever_way_they_are_read(node: AnyCluster, producer: Producer) -> None:
    class DropsOdd:
        def on_consume(self, records: dict[TopicPartition, list[Any]]) -> dict[TopicPartition, list[Any]]:
            return {
                partition: [record for record in each if record.offset % 2 == 0] for partition, each in records.items()
            }

    topic = node.topic()
    fill(producer, topic, 40)
    for way in ("iteration", "poll"):
        with consumer_of(node, interceptors=[DropsOdd()], max_poll_records=3) as consumer:
            consumer.subscribe([topic])
            offsets: list[int] = []
            if way == "iteration":
                records = iter(consumer)
                offsets = [next(records).offset for _ in range(20)]
            else:
                while len(offsets) < 20:
                    offsets += [record.offset for each in consumer.poll(1000).values() for record in each]
            assert offsets == list(range(0, 40, 2))


def number_or_fail(value: bytes) -> int:
    """Where it is called is the application's thread."""
    assert threading.current_thread() is threading.main_thread()
    return int(value)


@pytest.mark.parametrize("way", ["iteration", "poll", "getone"])
def test_deserializers_run_in_the_thread_that_reads_and_what_fails_is_come_back_to(
    node: AnyCluster, producer: Producer, way: str
) -> None:
    topic = node.topic()
    partition = TopicPartition(topic, 0)
    for value in ["0", "1", "two", "3", *map(str, range(4, 40))]:
        producer.send(topic, value)
    producer.flush()
    with consumer_of(node, topic, value_deserializer=number_or_fail, max_poll_records=5) as consumer:
        values: list[int] = []

        def read() -> None:
            if way == "iteration":
                for record in consumer:
                    values.append(record.value)
            while way == "poll":
                values.extend(record.value for records in consumer.poll(1000).values() for record in records)
            while way == "getone":
                values.append(consumer.getone().value)

        for _ in range(2):
            with pytest.raises(SerializationFailed, match=r"offset 2 cannot be deserialized.*seek past it"):
                read()
            assert consumer.position(partition) == 2
        consumer.seek(partition, 3)
        while len(values) < 39:
            values += [record.value for records in consumer.poll(1000).values() for record in records]
    assert values == [0, 1, *range(3, 40)]


# ---- beginnings and ends


def test_a_cluster_that_cannot_be_reached_is_told_when_the_client_is_made() -> None:
    with pytest.raises(CannotReachCluster, match=r"127\.0\.0\.1:1: Connection refused"):
        Producer(bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_a_name_that_no_host_can_have_is_told_when_the_client_is_made(host: str) -> None:
    with pytest.raises(CannotReachCluster, match=f"{host}:9092: no name of a host"):
        Producer(bootstrap_servers=f"{host}:9092")


def test_settings_that_will_not_do_are_told_when_the_client_is_made() -> None:
    with pytest.raises(BadSetting, match="is it linger_ms"):
        Producer(bootstrap_servers="here", lingerms=4)  # type: ignore[call-arg]


def test_a_consumer_takes_its_options_as_a_mapping(node: AnyCluster) -> None:
    options = {"bootstrap.servers": node.bootstrap, "group.id": node.name("mapped")}
    with Consumer(options) as consumer:
        consumer.subscribe(["t"])
        assert consumer.subscription() == {"t"}
    with Consumer("t", options=options) as consumer:
        assert consumer.subscription() == {"t"}


def test_no_thread_is_left_when_all_are_closed(node: AnyCluster) -> None:
    before = set(threading.enumerate())
    with Producer(bootstrap_servers=node.bootstrap), consumer_of(node, node.topic()):
        assert len(set(threading.enumerate()) - before) == 2
    assert set(threading.enumerate()) - before == set()


def test_a_client_that_cannot_connect_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(CannotReachCluster):
        Consumer(bootstrap_servers="127.0.0.1:1")
    assert set(threading.enumerate()) - before == set()


def test_a_producer_that_is_forgotten_warns_and_still_delivers(node: AnyCluster) -> None:
    topic = node.topic()
    producer = Producer(bootstrap_servers=node.bootstrap, linger_ms=60_000)
    delivery = producer.send(topic, "value")
    forgotten = [producer]
    del producer
    with pytest.warns(ResourceWarning, match="the producer cordwood was not closed"):
        forgotten.clear()
    gc.collect()
    assert delivery.result(30).offset == 0


def in_a_process(code: str, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("without", ["nothing", "uvloop"])
def test_an_interpreter_that_ends_delivers_what_was_sent(node: AnyCluster, without: str) -> None:
    topic = node.topic()
    in_a_process(
        """
        import sys
        sys.modules[sys.argv[3]] = None
        from cordwood import Producer
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        producer.send(sys.argv[2], "the last word")
        """,
        # By another name than the node's own, so that there is a connection yet to be made.
        node.bootstrap.replace("127.0.0.1", "localhost"),
        topic,
        without,
    )
    with consumer_of(node, topic) as consumer:
        assert consumer.getone().value == b"the last word"


def test_a_forked_process_is_refused_and_does_not_harm_its_parent(node: AnyCluster) -> None:
    topic = node.topic()
    told = in_a_process(
        """
        import os, sys, warnings
        from cordwood import IllegalState, Producer
        warnings.simplefilter("ignore")
        with Producer(bootstrap_servers=sys.argv[1]) as producer:
            producer.send(sys.argv[2], "of the parent").result(30)
            if os.fork() == 0:
                try:
                    producer.send(sys.argv[2], "of the child")
                except IllegalState as error:
                    print(error, flush=True)
                raise SystemExit
            os.wait()
            print(producer.send(sys.argv[2], "of the parent again").result(30).offset)
        """,
        node.bootstrap,
        topic,
    )
    assert "make a new one in each process" in told
    assert told.splitlines()[-1] == "1"
