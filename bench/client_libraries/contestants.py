"""One producer and one consumer of each library, with the same settings: acks=1, 5 ms of linger, batches of 16 KiB.

Each function does all of the work and returns the seconds it took: a producer's from the first record until all are
acknowledged, a consumer's from the first record to the last. Libraries are imported when their turn comes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

VALUE = b"v" * 100
BATCH_BYTES = 16_384
LINGER_MS = 5
# The number of records per bulk call.
BULK_RECORDS = 100_000
# A consumer without records for this time has failed.
PATIENCE_S = 30.0

Work = Callable[[str, str, int], float]
"""Bootstrap, topic, how many records."""


# Producing, record by record


def cordwood_send(bootstrap: str, topic: str, count: int) -> float:
    from cordwood import Producer

    with Producer(
        bootstrap_servers=bootstrap, acks=1, enable_idempotence=False, linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    ) as producer:
        producer.send_and_wait(topic, VALUE)
        began = time.perf_counter()
        send = producer.send
        for _ in range(count):
            send(topic, VALUE)
        producer.flush()
        return time.perf_counter() - began


def cordwood_send_async(bootstrap: str, topic: str, count: int) -> float:
    from cordwood.aio import Producer

    async def work() -> float:
        async with Producer(
            bootstrap_servers=bootstrap, acks=1, enable_idempotence=False, linger_ms=LINGER_MS, batch_size=BATCH_BYTES
        ) as producer:
            await producer.send_and_wait(topic, VALUE)
            began = time.perf_counter()
            for _ in range(count):
                await producer.send(topic, VALUE)
            await producer.flush()
            return time.perf_counter() - began

    return asyncio.run(work())


def confluent_produce(bootstrap: str, topic: str, count: int) -> float:
    from confluent_kafka import Producer

    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": 1, "linger.ms": LINGER_MS, "batch.size": BATCH_BYTES}
        | {"queue.buffering.max.messages": 1_000_000}
    )
    producer.produce(topic, VALUE)
    producer.flush()
    began = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, VALUE)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 1000 == 0:
            producer.poll(0)
    producer.flush()
    return time.perf_counter() - began


def kafka_python_send(bootstrap: str, topic: str, count: int) -> float:
    from kafka import KafkaProducer  # type: ignore[import-untyped]

    producer = KafkaProducer(
        bootstrap_servers=bootstrap,
        acks=1,
        enable_idempotence=False,
        linger_ms=LINGER_MS,
        batch_size=BATCH_BYTES,
        max_block_ms=60_000,
    )
    producer.send(topic, VALUE).get(PATIENCE_S)
    began = time.perf_counter()
    for _ in range(count):
        producer.send(topic, VALUE)
    producer.flush()
    took = time.perf_counter() - began
    producer.close()
    return took


def aiokafka_send(bootstrap: str, topic: str, count: int) -> float:
    from aiokafka import AIOKafkaProducer  # type: ignore[import-untyped]

    async def work() -> float:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, acks=1, linger_ms=LINGER_MS, max_batch_size=BATCH_BYTES
        )
        await producer.start()
        await producer.send_and_wait(topic, VALUE)
        began = time.perf_counter()
        for _ in range(count):
            await producer.send(topic, VALUE)
        await producer.flush()
        took = time.perf_counter() - began
        await producer.stop()
        return took

    return asyncio.run(work())


# Producing in bulk


def cordwood_send_arrow(bootstrap: str, topic: str, count: int) -> float:
    import pyarrow as pa  # type: ignore[import-untyped]

    from cordwood import Producer

    batch = pa.record_batch({"value": pa.array([VALUE] * BULK_RECORDS, pa.binary())})
    with Producer(
        bootstrap_servers=bootstrap, acks=1, enable_idempotence=False, linger_ms=LINGER_MS, batch_size=BATCH_BYTES
    ) as producer:
        producer.send_and_wait(topic, VALUE)
        began = time.perf_counter()
        for first in range(0, count, BULK_RECORDS):
            producer.send_arrow(batch.slice(0, min(BULK_RECORDS, count - first)), topic, value="value")
        producer.flush()
        return time.perf_counter() - began


# Consuming, record by record


def cordwood_iterate(bootstrap: str, topic: str, count: int) -> float:
    from cordwood import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        left = count
        began = 0.0
        for _record in consumer:
            if left == count:
                began = time.perf_counter()
            left -= 1
            if not left:
                break
        return time.perf_counter() - began


def cordwood_iterate_async(bootstrap: str, topic: str, count: int) -> float:
    from cordwood import TopicPartition
    from cordwood.aio import Consumer

    async def work() -> float:
        async with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            left = count
            began = 0.0
            async for _record in consumer:
                if left == count:
                    began = time.perf_counter()
                left -= 1
                if not left:
                    break
            return time.perf_counter() - began

    return asyncio.run(work())


def confluent_poll(bootstrap: str, topic: str, count: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    left = count
    began = 0.0
    while left:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        if left == count:
            began = time.perf_counter()
        left -= 1
    took = time.perf_counter() - began
    consumer.close()
    return took


def kafka_python_iterate(bootstrap: str, topic: str, count: int) -> float:
    from kafka import KafkaConsumer
    from kafka import TopicPartition as Partition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
    consumer.assign([Partition(topic, 0)])
    left = count
    began = 0.0
    for _record in consumer:
        if left == count:
            began = time.perf_counter()
        left -= 1
        if not left:
            break
    took = time.perf_counter() - began
    consumer.close()
    return took


def aiokafka_iterate(bootstrap: str, topic: str, count: int) -> float:
    from aiokafka import AIOKafkaConsumer
    from aiokafka import TopicPartition as Partition

    async def work() -> float:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest")
        consumer.assign([Partition(topic, 0)])
        await consumer.start()
        left = count
        began = 0.0
        async for _record in consumer:
            if left == count:
                began = time.perf_counter()
            left -= 1
            if not left:
                break
        took = time.perf_counter() - began
        await consumer.stop()
        return took

    return asyncio.run(work())


# Consuming in bulk


def cordwood_arrow(bootstrap: str, topic: str, count: int) -> float:
    from cordwood import Consumer, TopicPartition

    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        left, first = count, 0
        began = 0.0
        for batch in consumer.arrow():
            if left == count:
                # As with the others: the time from the first records on, and without them.
                began, first = time.perf_counter(), batch.num_rows
            left -= batch.num_rows
            if left <= 0:
                break
        return (time.perf_counter() - began) * count / max(1, count - first)


def confluent_consume(bootstrap: str, topic: str, count: int) -> float:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    left, first = count, 0
    began = 0.0
    while left > 0:
        messages = consumer.consume(num_messages=10_000, timeout=1.0)
        assert all(message.error() is None for message in messages)
        if left == count and messages:
            began, first = time.perf_counter(), len(messages)
        left -= len(messages)
    took = (time.perf_counter() - began) * count / max(1, count - first)
    consumer.close()
    return took
