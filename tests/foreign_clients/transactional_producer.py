"""Transactional producers of each library, behind what the tests ask of them."""

import asyncio
from collections.abc import Mapping
from typing import Any, Protocol

from aiokafka import AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError as AiokafkaError  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

import cordwood
from tests.foreign_clients.aiokafka_client import connection_settings as aiokafka_settings
from tests.foreign_clients.kafka_client import PATIENCE_S, Address
from tests.foreign_clients.kafka_python import ConsumerGroupMetadata, KafkaProducer, OffsetAndMetadata, errors
from tests.foreign_clients.kafka_python_client import KafkaPythonPartition
from tests.foreign_clients.kafka_python_client import connection_settings as kafka_python_settings
from tests.foreign_clients.librdkafka_client import connection_settings as librdkafka_settings
from tests.foreign_clients.member_journal import Place


class Fenced(Exception):
    """Another producer has taken the transactional id over."""


class TransactionalProducer(Protocol):
    """Ready to begin: what a former producer of the same id had begun is ended."""

    def __init__(self, address: Address, transactional_id: str, timeout_ms: int = 60_000) -> None: ...

    def begin(self) -> None: ...

    def send(self, place: Place, value: bytes) -> None:
        """Returns when it is acknowledged."""
        ...

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None: ...

    def commit(self) -> None: ...

    def abort(self) -> None: ...

    def close(self) -> None: ...


class LibrdkafkaTransactions:
    def __init__(self, address: Address, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._connection = librdkafka_settings(address)
        self._producer = Producer(
            self._connection
            | {
                "transactional.id": transactional_id,
                "transaction.timeout.ms": timeout_ms,
                "message.timeout.ms": timeout_ms,
            }
        )
        self._producer.init_transactions(PATIENCE_S)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, place: Place, value: bytes) -> None:
        self._producer.produce(place.topic, value, partition=place.partition)
        assert self._producer.flush(PATIENCE_S) == 0

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        """For a consumer that is no member."""
        consumer = Consumer(self._connection | {"group.id": group})
        ends = [LibrdkafkaPartition(*place, offset) for place, offset in offsets.items()]
        self._producer.send_offsets_to_transaction(ends, consumer.consumer_group_metadata(), PATIENCE_S)
        consumer.close()

    def commit(self) -> None:
        try:
            self._producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            if error.args[0].fatal():
                raise Fenced(str(error)) from error
            raise

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)

    def close(self) -> None:
        """Its handle ends with the last reference."""


class KafkaPythonTransactions:
    def __init__(self, address: Address, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = KafkaProducer(
            **kafka_python_settings(address), transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, place: Place, value: bytes) -> None:
        self._producer.send(place.topic, value, partition=place.partition).get(PATIENCE_S)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        ends = {KafkaPythonPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
        self._producer.send_offsets_to_transaction(ends, ConsumerGroupMetadata(group))

    def commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except errors.KafkaError as error:
            raise Fenced(str(error)) from error

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


class AiokafkaTransactions:
    def __init__(self, address: Address, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._loop = asyncio.new_event_loop()
        self._producer = self._run(self._started(address, transactional_id, timeout_ms))

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send(self, place: Place, value: bytes) -> None:
        self._run(self._producer.send_and_wait(place.topic, value, partition=place.partition))

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        ends = {TopicPartition(*place): offset for place, offset in offsets.items()}
        self._run(self._producer.send_offsets_to_transaction(ends, group))

    def commit(self) -> None:
        try:
            self._run(self._producer.commit_transaction())
        except AiokafkaError as error:
            raise Fenced(str(error)) from error

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())
        self._loop.close()

    async def _started(self, address: Address, transactional_id: str, timeout_ms: int) -> Any:
        producer = AIOKafkaProducer(
            **aiokafka_settings(address), transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
        )
        await producer.start()
        return producer

    def _run(self, work: Any) -> Any:
        return self._loop.run_until_complete(asyncio.wait_for(work, PATIENCE_S))


class CordwoodTransactions:
    def __init__(self, address: Address, transactional_id: str, timeout_ms: int = 60_000) -> None:
        self._producer = cordwood.Producer(
            bootstrap_servers=address.bootstrap,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            max_block_ms=int(PATIENCE_S * 1000),
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, place: Place, value: bytes) -> None:
        self._producer.send(place.topic, value, partition=place.partition).result(PATIENCE_S)

    def send_offsets(self, group: str, offsets: Mapping[Place, int]) -> None:
        ends = {
            cordwood.TopicPartition(*place): cordwood.OffsetAndMetadata(offset) for place, offset in offsets.items()
        }
        self._producer.send_offsets_to_transaction(ends, cordwood.GroupMetadata(group))

    def commit(self) -> None:
        try:
            self._producer.commit_transaction()
        except cordwood.ProducerFenced as error:
            raise Fenced(str(error)) from error

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=1)


PRODUCERS: dict[str, type[TransactionalProducer]] = {
    "librdkafka": LibrdkafkaTransactions,
    "kafka-python": KafkaPythonTransactions,
    "aiokafka": AiokafkaTransactions,
    "cordwood": CordwoodTransactions,
}
