"""Cordwood's own client, the one for threads."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

import cordwood
from cordwood import (
    Admin,
    BrokerError,
    CannotReachCluster,
    Consumer,
    ConsumerRecord,
    NewTopic,
    Producer,
    TopicPartition,
)
from cordwood.client.options.keywords import AdminKeywords
from tests.foreign_clients.kafka_client import (
    DEFAULT_SENDING,
    EARLIEST,
    LATEST,
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

# For connections that are lost: the tests cut many of them.
_SHORT_BACKOFFS: AdminKeywords = {
    "reconnect_backoff_ms": 20,
    "reconnect_backoff_max_ms": 200,
    "retry_backoff_ms": 20,
    "retry_backoff_max_ms": 200,
}


class CordwoodClient:
    name = "cordwood"

    def __init__(self, address: Address) -> None:
        self._settings = connection_settings(address)
        self._opened_admin: Admin | None = None

    def produce(
        self, topic: str, records: Sequence[Record], *, partition: int = 0, how: Sending = DEFAULT_SENDING
    ) -> list[int]:
        with opened(lambda: Producer(producer_settings(how), **self._settings)) as producer, refusals():
            sent = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=record.headers,
                )
                for record in records
            ]
            producer.flush(PATIENCE_S)
            return [delivery.result(PATIENCE_S).offset for delivery in sent]

    def reader(
        self,
        topic: str,
        *,
        partition: int = 0,
        start: int,
        isolation: str = "read_uncommitted",
        max_bytes: int = MAX_FETCH_BYTES,
    ) -> "CordwoodReader":
        return CordwoodReader(self._consumer(isolation, max_bytes), TopicPartition(topic, partition), start)

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)
        with self._consumer() as consumer, refusals():
            found = consumer.offsets_for_times({place: timestamp_ms})[place]
        return None if found is None else found.offset

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)
        with self._consumer() as consumer, refusals():
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]

    def leaders(self, topic: str) -> dict[int, int]:
        with refusals():
            description = self._admin.describe_topics([topic])[topic]
        return {
            partition.index: partition.leader for partition in description.partitions if partition.leader is not None
        }

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        with refusals():
            self._admin.create_topics([NewTopic(name, partitions, configs=configs or {})])

    def add_partitions(self, name: str, total: int) -> None:
        with refusals():
            self._admin.create_partitions({name: total})

    def delete_topic(self, name: str) -> None:
        with refusals():
            self._admin.delete_topics([name])

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics())

    def configs(self, resource: Resource) -> dict[str, ConfigValue]:
        named = _config_resource(resource)
        with refusals():
            entries = self._admin.describe_configs([named])[named]
        return {entry.name: ConfigValue(entry.value, entry.source) for entry in entries}

    def replace_configs(self, resource: Resource, configs: Mapping[str, str]) -> None:
        with refusals():
            self._admin.alter_configs({_config_resource(resource): configs})

    def change_configs(self, resource: Resource, changes: Sequence[ConfigChange]) -> None:
        wanted = [
            cordwood.ConfigChange(change.key, cordwood.AlterOperation[change.operation.upper()], change.value)
            for change in changes
        ]
        with refusals():
            self._admin.incremental_alter_configs({_config_resource(resource): wanted})

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)
        with refusals():
            return self._admin.delete_records({place: before_offset})[place]

    def close(self) -> None:
        if self._opened_admin is not None:
            self._opened_admin.close()

    @property
    def _admin(self) -> Admin:
        if self._opened_admin is None:
            self._opened_admin = opened(lambda: Admin(**self._settings))
        return self._opened_admin

    def _consumer(self, isolation: str = "read_uncommitted", max_bytes: int = MAX_FETCH_BYTES) -> Consumer:
        return opened(lambda: Consumer(consumer_settings(isolation, max_bytes), **self._settings))


class CordwoodReader:
    def __init__(self, consumer: Consumer, place: TopicPartition, start: int) -> None:
        self._consumer = consumer
        consumer.assign([place])
        if start == EARLIEST:
            consumer.seek_to_beginning(place)
        elif start == LATEST:
            consumer.seek_to_end(place)
        else:
            consumer.seek(place, start)

    def poll(self, wait_s: float) -> list[Stored]:
        with refusals():
            polled = self._consumer.poll(timeout_ms=wait_s * 1000, max_records=10_000)
        return [_stored(record) for records in polled.values() for record in records]

    def close(self) -> None:
        self._consumer.close()


T = TypeVar("T")


def opened(make: Callable[[], T]) -> T:
    """It tries each bootstrap address once: a connection that is cut there is no reason to give up."""
    deadline = monotonic() + PATIENCE_S
    while True:
        try:
            return make()
        except CannotReachCluster:
            if monotonic() > deadline:
                raise
            sleep(0.02)


def connection_settings(address: Address) -> AdminKeywords:
    settings: AdminKeywords = {"bootstrap_servers": address.bootstrap, **_SHORT_BACKOFFS}
    if address.tls is not None:
        settings["security_protocol"] = "SSL"
        settings["ssl_truststore_location"] = address.tls.ca_file
        if address.tls.certificate_file is not None and address.tls.key_file is not None:
            settings["ssl_keystore_certificate_chain"] = Path(address.tls.certificate_file).read_text()
            settings["ssl_keystore_key"] = Path(address.tls.key_file).read_text()
    return settings


def producer_settings(how: Sending) -> dict[str, object]:
    return {
        "compression.type": how.compression,
        "acks": how.acks,
        "enable.idempotence": how.idempotent,
        "linger.ms": how.linger_ms,
        "batch.size": how.batch_bytes,
        "max.request.size": how.max_request_bytes,
        "delivery.timeout.ms": int(PATIENCE_S * 1000),
        "request.timeout.ms": 10_000,
    }


def consumer_settings(isolation: str, max_bytes: int = MAX_FETCH_BYTES) -> dict[str, object]:
    return {
        "enable.auto.commit": False,
        "auto.offset.reset": "none",
        "isolation.level": isolation,
        "fetch.max.wait.ms": 200,
        "max.partition.fetch.bytes": max_bytes,
    }


def _config_resource(resource: Resource) -> cordwood.ConfigResource:
    return cordwood.ConfigResource(cordwood.ConfigResourceType[resource.kind.upper()], resource.name)


def _stored(record: ConsumerRecord) -> Stored:
    return Stored(record.offset, record.value, record.key, record.headers, record.timestamp, record.timestamp_type)


@contextmanager
def refusals() -> Iterator[None]:
    """Converts a broker's errors to those of the tests."""
    try:
        yield
    except BrokerError as error:
        raise Refused(error.code, str(error)) from error
