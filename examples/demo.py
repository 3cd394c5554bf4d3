"""200,000 orders through a node, with librdkafka (confluent-kafka) on both sides. `make demo` runs it.

Nothing here is special to Cordwood but the lines that start and stop the node: any Kafka client would do.
"""

import itertools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import cordwood.testing

TOPIC, PARTITIONS = "orders", 3
RECORDS, PINGS = 200_000, 1_000
PATIENCE_S = 60.0


def main() -> None:
    data = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="cordwood-demo-"))

    heading("A node")
    started = time.perf_counter()
    with cordwood.testing.node(subprocess=True, data=data) as node:
        print(f"ready after {time.perf_counter() - started:.2f} s at {node.bootstrap}, with its data in {data}")
        node.topic(TOPIC, partitions=PARTITIONS)

        heading(f"{RECORDS:,} records in, {RECORDS:,} out")
        produce(node.bootstrap)
        consume(node.bootstrap)

        heading("One record at a time")
        measure_latency(node.bootstrap, node.topic("pings"))

    heading("What is on disk now: Kafka's own files")
    show_files(data)
    show_batches(data / f"{TOPIC}-0")

    heading("How to go on")
    print(
        ".venv/bin/cordwood up                 a node at 127.0.0.1:9092, until Ctrl-C\n"
        ".venv/bin/cordwood --help             topics, records, groups, transactions, from the command line\n"
        "README.md                             a first produce and consume; cordwood.testing for your tests\n"
        f"\nThe data of this demo can be served again: .venv/bin/cordwood up --data {data}"
    )


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": RECORDS})
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    started = time.perf_counter()
    sent_bytes = 0
    for number in range(RECORDS):
        key, value = f"customer-{number % 1_000}".encode(), order(number)
        sent_bytes += len(key) + len(value)
        producer.produce(TOPIC, value, key, on_delivery=delivered)
    if producer.flush(PATIENCE_S) or failures:
        raise SystemExit(f"{len(producer)} records were not acknowledged, {len(failures)} were refused: {failures[:1]}")
    report("produced and acknowledged", RECORDS, sent_bytes, time.perf_counter() - started)


def consume(bootstrap: str) -> None:
    consumer = new_consumer(bootstrap, [TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    started = time.perf_counter()
    seen: set[int] = set()
    received_bytes = 0
    while len(seen) < RECORDS:
        messages = consumer.consume(10_000, timeout=PATIENCE_S)
        if not messages:
            raise SystemExit(f"no more records came; {len(seen):,} of {RECORDS:,} were there")
        for message in messages:
            key, value = checked(message)
            received_bytes += len(key) + len(value)
            seen.add(int(value[6:16]))
    report("consumed, each of them once", RECORDS, received_bytes, time.perf_counter() - started)
    consumer.close()


def measure_latency(bootstrap: str, topic: str) -> None:
    """From produce() until the consumer has it, with nothing else under way."""
    consumer = new_consumer(bootstrap, [TopicPartition(topic, 0, 0)])
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    seconds = []
    # The first ones open connections and compile codecs.
    for number in itertools.chain(range(-100, 0), range(PINGS)):
        sent = time.perf_counter()
        producer.produce(topic, b"ping")
        producer.poll(0)
        message = consumer.poll(PATIENCE_S)
        if message is None:
            raise SystemExit("a record did not arrive")
        checked(message)
        if number >= 0:
            seconds.append(time.perf_counter() - sent)
    producer.flush(PATIENCE_S)
    consumer.close()
    seconds.sort()
    print(
        f"from producer to consumer, {PINGS:,} times: half of them within {seconds[PINGS // 2] * 1000:.2f} ms, "
        f"99 % within {seconds[PINGS * 99 // 100] * 1000:.2f} ms"
    )


def show_files(data: Path) -> None:
    for path in sorted(data.rglob("*")):
        if path.is_file() and (path.parent == data or path.parent.name == f"{TOPIC}-0"):
            print(f"{path.stat().st_size:>12,}  {path.relative_to(data)}")


def show_batches(partition: Path) -> None:
    command = ["log", "dump", str(partition), "--no-records", "--limit", "2"]
    print(f"\n$ cordwood {' '.join(command)}", flush=True)
    subprocess.run([sys.executable, "-m", "cordwood", *command], check=True)


def new_consumer(bootstrap: str, partitions: list[TopicPartition]) -> Consumer:
    """Reads the partitions that it is given, from their beginning: no group has to come together first."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo", "enable.auto.commit": False})
    consumer.assign(partitions)
    return consumer


def checked(message: Message) -> tuple[bytes, bytes]:
    error = message.error()
    if error is not None:
        raise KafkaException(error)
    return message.key() or b"", message.value() or b""


def order(number: int) -> bytes:
    return f"order {number:010d}: two candles and a box of matches, for the house at the end of the road".encode()


def report(what: str, records: int, size: int, seconds: float) -> None:
    print(f"{what}: {records / seconds:,.0f} records/s, {size / seconds / 1e6:.0f} MB/s ({seconds:.2f} s)")


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


if __name__ == "__main__":
    main()
