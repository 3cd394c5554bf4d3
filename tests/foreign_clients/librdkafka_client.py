"""librdkafka, through confluent-kafka."""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.foreign_clients.kafka_client import (
    DEFAULT_SENDING,
    MAX_FETCH_BYTES,
    PATIENCE_S,
    Address,
    ConfigChange,
    ConfigValue,
    Record,
    Refused,
    Resource,
    Sending,
    Stored,
)

_TIMESTAMP_TYPES = {1: 0, 2: 1}
_OPERATIONS = {
    "set": AlterConfigOpType.SET,
    "delete": AlterConfigOpType.DELETE,
    "append": AlterConfigOpType.APPEND,
    "subtract": AlterConfigOpType.SUBTRACT,
}


class LibrdkafkaClient:
    name = "librdkafka"

    def __init__(self, address: Address) -> None:
        self._settings = connection_settings(address)
        self._admin = AdminClient(self._settings)

    def produce(
        self, topic: str, records: Sequence[Record], *, partition: int = 0, how: Sending = DEFAULT_SENDING
    ) -> list[int]:
        producer = Producer(self._settings | producer_settings(how))
        offsets = [-1] * len(records)
        errors: list[KafkaError] = []
        for place, record in enumerate(records):

            def delivered(error: KafkaError | None, message: Message, place: int = place) -> None:
                if error is not None:
                    errors.append(error)
                else:
                    offsets[place] = cast(int, message.offset())

            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=partition,
                headers=cast(Any, list(record.headers)),
                timestamp=record.timestamp_ms or 0,
                on_delivery=delivered,
            )
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0, "records are left unsent"
        if errors:
            raise _refused(errors[0])
        return offsets

    def reader(
        self,
        topic: str,
        *,
        partition: int = 0,
        start: int,
        isolation: str = "read_uncommitted",
        max_bytes: int = MAX_FETCH_BYTES,
    ) -> "LibrdkafkaReader":
        consumer = self._consumer(isolation, max_bytes)
        consumer.assign([TopicPartition(topic, partition, start)])
        return LibrdkafkaReader(consumer)

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        consumer = self._consumer()
        try:
            (found,) = consumer.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], timeout=PATIENCE_S)
        finally:
            consumer.close()
        if found.error is not None:
            raise _refused(found.error)
        return found.offset if found.offset >= 0 else None

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        consumer = self._consumer()
        try:
            watermarks = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=PATIENCE_S)
        except KafkaException as error:
            raise _refused(error.args[0]) from error
        finally:
            consumer.close()
        assert watermarks is not None, "no answer in time"
        return watermarks

    def leaders(self, topic: str) -> dict[int, int]:
        description = self._done(self._admin.describe_topics(TopicCollection([topic])))
        return {partition.id: partition.leader.id for partition in description.partitions}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self._done(self._admin.create_topics([NewTopic(name, partitions, config=dict(configs or {}))]))

    def add_partitions(self, name: str, total: int) -> None:
        self._done(self._admin.create_partitions([NewPartitions(name, total)]))

    def delete_topic(self, name: str) -> None:
        self._done(self._admin.delete_topics([name]))

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics(timeout=PATIENCE_S).topics)

    def brokers(self) -> set[str]:
        """Where they say they are reached."""
        brokers = self._admin.list_topics(timeout=PATIENCE_S).brokers
        return {f"{broker.host}:{broker.port}" for broker in brokers.values()}

    def is_reachable(self, within_s: float) -> bool:
        try:
            return bool(self._admin.list_topics(timeout=within_s).brokers)
        except KafkaException:
            return False

    def configs(self, resource: Resource) -> dict[str, ConfigValue]:
        entries = self._done(self._admin.describe_configs([ConfigResource(resource.kind, resource.name)]))
        return {entry.name: ConfigValue(entry.value, int(entry.source)) for entry in entries.values()}

    def replace_configs(self, resource: Resource, configs: Mapping[str, str]) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            altered = self._admin.alter_configs(
                [ConfigResource(resource.kind, resource.name, set_config=dict(configs))]
            )
        self._done(altered)

    def change_configs(self, resource: Resource, changes: Sequence[ConfigChange]) -> None:
        entries = [
            ConfigEntry(change.key, change.value, incremental_operation=_OPERATIONS[change.operation])
            for change in changes
        ]
        self._done(
            self._admin.incremental_alter_configs(
                [ConfigResource(resource.kind, resource.name, incremental_configs=entries)]
            )
        )

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        deleted = self._done(self._admin.delete_records([TopicPartition(topic, partition, before_offset)]))
        return cast(int, deleted.low_watermark)

    def close(self) -> None:
        """Its handles end with their last reference."""

    def _consumer(self, isolation: str = "read_uncommitted", max_bytes: int = MAX_FETCH_BYTES) -> Consumer:
        return Consumer(self._settings | consumer_settings(isolation, max_bytes))

    @staticmethod
    def _done(answers: Mapping[Any, Any]) -> Any:
        (future,) = answers.values()
        try:
            return future.result(timeout=PATIENCE_S)
        except KafkaException as error:
            raise _refused(error.args[0]) from error


class LibrdkafkaReader:
    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def poll(self, wait_s: float) -> list[Stored]:
        # `consume` waits until it has everything that it was asked for: first one, then what else has come.
        first = self._consumer.poll(wait_s)
        messages = [] if first is None else [first, *self._consumer.consume(10_000, 0)]
        records = []
        for message in messages:
            if (error := message.error()) is not None:
                raise _refused(error)
            records.append(_stored(message))
        return records

    def close(self) -> None:
        self._consumer.close()


def connection_settings(address: Address) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap.servers": address.bootstrap,
        # Suppresses its log lines about a broker that is down for a while.
        "log_level": 2,
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "retry.backoff.ms": 20,
        "topic.metadata.refresh.fast.interval.ms": 20,
    }
    if address.tls is not None:
        settings |= {"security.protocol": "ssl", "ssl.ca.location": address.tls.ca_file}
        if address.tls.certificate_file is not None:
            settings |= {
                "ssl.certificate.location": address.tls.certificate_file,
                "ssl.key.location": address.tls.key_file,
            }
    return settings


def producer_settings(how: Sending) -> dict[str, Any]:
    return {
        "compression.type": how.compression,
        "acks": how.acks,
        "enable.idempotence": how.idempotent,
        "linger.ms": how.linger_ms,
        "batch.size": how.batch_bytes,
        "batch.num.messages": 1_000_000,
        "message.max.bytes": how.max_request_bytes,
        "queue.buffering.max.messages": 1_000_000,
    }


def consumer_settings(isolation: str, max_bytes: int = MAX_FETCH_BYTES) -> dict[str, Any]:
    return {
        # Demanded by the library; nothing is committed and no group is joined.
        "group.id": "unused",
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": isolation,
        "fetch.wait.max.ms": 200,
        "max.partition.fetch.bytes": max_bytes,
        "fetch.error.backoff.ms": 20,
    }


def _stored(message: Message) -> Stored:
    kind, timestamp_ms = message.timestamp()
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
    return Stored(
        cast(int, message.offset()),
        message.value(),
        message.key(),
        tuple(headers or ()),
        timestamp_ms,
        _TIMESTAMP_TYPES[kind],
    )


def _refused(error: KafkaError) -> Exception:
    """Codes below zero are the library's own."""
    return Refused(error.code(), error.str())
