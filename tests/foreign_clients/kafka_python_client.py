"""kafka-python."""

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, cast

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

with warnings.catch_warnings():
    # It reads its schemas in a way that Python 3.11 calls deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition  # type: ignore[import-untyped]
    from kafka.admin import ConfigResource  # type: ignore[import-untyped]
    from kafka.errors import KafkaError, for_code  # type: ignore[import-untyped]

# Not to be mixed up with that of the other clients.
KafkaPythonPartition = TopicPartition

_SOURCES = {
    "DYNAMIC_TOPIC_CONFIG": 1,
    "DYNAMIC_BROKER_CONFIG": 2,
    "DYNAMIC_DEFAULT_BROKER_CONFIG": 3,
    "STATIC_BROKER_CONFIG": 4,
    "DEFAULT_CONFIG": 5,
}


class KafkaPythonClient:
    name = "kafka-python"

    def __init__(self, address: Address) -> None:
        self._settings = connection_settings(address)
        self._opened_admin: Any = None

    def produce(
        self, topic: str, records: Sequence[Record], *, partition: int = 0, how: Sending = DEFAULT_SENDING
    ) -> list[int]:
        producer = KafkaProducer(**self._settings, **producer_settings(how))
        try:
            sent = [
                producer.send(
                    topic,
                    value=record.value,
                    key=record.key,
                    partition=partition,
                    headers=list(record.headers),
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            producer.flush(PATIENCE_S)
            return [future.get(PATIENCE_S).offset for future in sent]
        except KafkaError as error:
            raise _refused(error) from error
        finally:
            producer.close(timeout=1)

    def reader(
        self,
        topic: str,
        *,
        partition: int = 0,
        start: int,
        isolation: str = "read_uncommitted",
        max_bytes: int = MAX_FETCH_BYTES,
    ) -> "KafkaPythonReader":
        return KafkaPythonReader(self._consumer(isolation, max_bytes), TopicPartition(topic, partition), start)

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        consumer, place = self._consumer(), TopicPartition(topic, partition)
        try:
            found = consumer.offsets_for_times({place: timestamp_ms})[place]
        except KafkaError as error:
            raise _refused(error) from error
        finally:
            consumer.close()
        return None if found is None else cast(int, found.offset)

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        consumer, place = self._consumer(), TopicPartition(topic, partition)
        try:
            return consumer.beginning_offsets([place])[place], consumer.end_offsets([place])[place]
        except KafkaError as error:
            raise _refused(error) from error
        finally:
            consumer.close()

    def leaders(self, topic: str) -> dict[int, int]:
        (description,) = self._admin.describe_topics([topic])
        if description["error_code"]:
            raise Refused(description["error_code"])
        return {partition["partition_index"]: partition["leader_id"] for partition in description["partitions"]}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        self._administer("create_topics", {name: {"num_partitions": partitions, "configs": dict(configs or {})}})

    def add_partitions(self, name: str, total: int) -> None:
        self._administer("create_partitions", {name: total})

    def delete_topic(self, name: str) -> None:
        self._administer("delete_topics", [name])

    def topic_names(self) -> set[str]:
        return set(self._admin.list_topics())

    def configs(self, resource: Resource) -> dict[str, ConfigValue]:
        described = self._administer(
            "describe_configs", [ConfigResource(resource.kind, resource.name)], config_filter="all"
        )
        return {
            key: ConfigValue(config["value"], _SOURCES[config["config_source"]])
            for key, config in described[resource.kind][resource.name].items()
        }

    def replace_configs(self, resource: Resource, configs: Mapping[str, str]) -> None:
        """Through `reset_configs`, since `alter_configs` adds what was set before to the request."""
        kept = {key: value.value for key, value in self.configs(resource).items() if value.source in (1, 2)}
        dropped = [key for key in kept if key not in configs]
        if dropped:
            self._alter("reset_configs", ConfigResource(resource.kind, resource.name, dict.fromkeys(dropped)), False)
        self._alter("alter_configs", ConfigResource(resource.kind, resource.name, dict(configs)), False)

    def change_configs(self, resource: Resource, changes: Sequence[ConfigChange]) -> None:
        configs = {change.key: (change.operation.upper(), change.value) for change in changes}
        self._alter("alter_configs", ConfigResource(resource.kind, resource.name, configs), True)

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)
        return cast(int, self._administer("delete_records", {place: before_offset})[place]["low_watermark"])

    def close(self) -> None:
        if self._opened_admin is not None:
            self._opened_admin.close()

    @property
    def _admin(self) -> Any:
        if self._opened_admin is None:
            self._opened_admin = KafkaAdminClient(**self._settings)
        return self._opened_admin

    def _administer(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self._admin, method)(*arguments, **options)
        except KafkaError as error:
            raise _refused(error) from error

    def _alter(self, method: str, resource: Any, incremental: bool) -> None:
        answer = self._administer(method, [resource], raise_on_unknown=False, incremental=incremental)
        (outcome,) = [outcome for outcomes in answer.values() for outcome in outcomes.values()]
        if outcome != "OK":
            # The code is in the text only: "[Error 40] InvalidConfigurationError: …"
            code = re.match(r"\[Error (\d+)\]", outcome)
            raise Refused(int(code[1]) if code else -1, outcome)

    def _consumer(self, isolation: str = "read_uncommitted", max_bytes: int = MAX_FETCH_BYTES) -> Any:
        return KafkaConsumer(**self._settings, **consumer_settings(isolation, max_bytes))


class KafkaPythonReader:
    def __init__(self, consumer: Any, place: Any, start: int) -> None:
        self._consumer = consumer
        consumer.assign([place])
        if start == -2:
            consumer.seek_to_beginning(place)
        elif start == -1:
            consumer.seek_to_end(place)
        else:
            consumer.seek(place, start)

    def poll(self, wait_s: float) -> list[Stored]:
        try:
            polled = self._consumer.poll(timeout_ms=int(wait_s * 1000), max_records=10_000)
        except KafkaError as error:
            raise _refused(error) from error
        return [_stored(record) for records in polled.values() for record in records]

    def close(self) -> None:
        self._consumer.close()


def admin_client(address: Address) -> Any:
    """The library's own, for what only it can do."""
    return KafkaAdminClient(**connection_settings(address))


def consumer_client(address: Address) -> Any:
    return KafkaConsumer(**connection_settings(address), **consumer_settings("read_uncommitted"))


def connection_settings(address: Address) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": address.bootstrap,
        "reconnect_backoff_ms": 20,
        "reconnect_backoff_max_ms": 200,
        "retry_backoff_ms": 20,
    }
    if address.tls is not None:
        settings |= {
            "security_protocol": "SSL",
            "ssl_cafile": address.tls.ca_file,
            "ssl_certfile": address.tls.certificate_file,
            "ssl_keyfile": address.tls.key_file,
        }
    return settings


def producer_settings(how: Sending) -> dict[str, Any]:
    return {
        "compression_type": None if how.compression == "none" else how.compression,
        "acks": how.acks,
        "enable_idempotence": how.idempotent,
        "linger_ms": how.linger_ms,
        "batch_size": how.batch_bytes,
        "max_request_size": how.max_request_bytes,
    }


def consumer_settings(isolation: str, max_bytes: int = MAX_FETCH_BYTES) -> dict[str, Any]:
    return {
        "group_id": None,
        "enable_auto_commit": False,
        "auto_offset_reset": "none",
        "isolation_level": isolation,
        "fetch_max_wait_ms": 200,
        "max_partition_fetch_bytes": max_bytes,
    }


def _stored(record: Any) -> Stored:
    return Stored(
        record.offset, record.value, record.key, tuple(record.headers), record.timestamp, record.timestamp_type
    )


def _refused(error: Any) -> Refused:
    """The library raises its own errors under codes that no broker has (timeouts, for one)."""
    code = getattr(error, "errno", None)
    if code is None or not isinstance(error, for_code(code)):
        raise error
    return Refused(code, str(error))
