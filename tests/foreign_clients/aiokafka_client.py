"""aiokafka, on an event loop in its own thread."""

import asyncio
import ssl
import threading
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar, cast

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.admin import (  # type: ignore[import-untyped]
    AIOKafkaAdminClient,
    NewPartitions,
    NewTopic,
    RecordsToDelete,
)
from aiokafka.admin.config_resource import ConfigResource  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError  # type: ignore[import-untyped]

from tests.foreign_clients.kafka_client import (
    DEFAULT_SENDING,
    MAX_FETCH_BYTES,
    PATIENCE_S,
    Address,
    ConfigValue,
    Record,
    Refused,
    Resource,
    Sending,
    Stored,
)

T = TypeVar("T")

# Where there are as many brokers.
_REPLICAS = 3


class AiokafkaClient:
    name = "aiokafka"

    def __init__(self, address: Address) -> None:
        self._settings = connection_settings(address)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="aiokafka", daemon=True)
        self._thread.start()
        self._opened_admin: Any = None

    def produce(
        self, topic: str, records: Sequence[Record], *, partition: int = 0, how: Sending = DEFAULT_SENDING
    ) -> list[int]:
        async def send_all() -> list[int]:
            producer = AIOKafkaProducer(**self._settings, **producer_settings(how))
            try:
                await producer.start()
                sent = [
                    await producer.send(
                        topic,
                        value=record.value,
                        key=record.key,
                        partition=partition,
                        headers=list(record.headers),
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                acknowledged = await asyncio.gather(*sent)
                # Without acknowledgements there are no results.
                return [metadata.offset for metadata in acknowledged if metadata is not None]
            finally:
                await producer.stop()

        return self._run(send_all())

    def reader(
        self,
        topic: str,
        *,
        partition: int = 0,
        start: int,
        isolation: str = "read_uncommitted",
        max_bytes: int = MAX_FETCH_BYTES,
    ) -> "AiokafkaReader":
        return self._run(self._open_reader(TopicPartition(topic, partition), start, isolation, max_bytes))

    def offset_for_time(self, topic: str, timestamp_ms: int, *, partition: int = 0) -> int | None:
        place = TopicPartition(topic, partition)

        async def look_up() -> Any:
            consumer = AIOKafkaConsumer(**self._settings, **consumer_settings("read_uncommitted"))
            try:
                await consumer.start()
                return (await consumer.offsets_for_times({place: timestamp_ms}))[place]
            finally:
                await consumer.stop()

        found = self._run(look_up())
        return None if found is None else cast(int, found.offset)

    def watermarks(self, topic: str, *, partition: int = 0) -> tuple[int, int]:
        place = TopicPartition(topic, partition)

        async def look_up() -> tuple[int, int]:
            consumer = AIOKafkaConsumer(**self._settings, **consumer_settings("read_uncommitted"))
            try:
                await consumer.start()
                low = await consumer.beginning_offsets([place])
                return low[place], (await consumer.end_offsets([place]))[place]
            finally:
                await consumer.stop()

        return self._run(look_up())

    def leaders(self, topic: str) -> dict[int, int]:
        (description,) = self._run(self._admin.describe_topics([topic]))
        if description["error_code"]:
            raise Refused(description["error_code"])
        return {partition["partition"]: partition["leader"] for partition in description["partitions"]}

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        # It refuses -1, which stands for the cluster's default.
        brokers = self._run(self._admin.describe_cluster())["brokers"]
        topic = NewTopic(name, partitions, min(_REPLICAS, len(brokers)), topic_configs=dict(configs or {}))
        self._check(self._run(self._admin.create_topics([topic])).topic_errors)

    def add_partitions(self, name: str, total: int) -> None:
        self._run(self._admin.create_partitions({name: NewPartitions(total)}))

    def delete_topic(self, name: str) -> None:
        self._check(self._run(self._admin.delete_topics([name])).topic_error_codes)

    def topic_names(self) -> set[str]:
        return set(self._run(self._admin.list_topics()))

    def configs(self, resource: Resource) -> dict[str, ConfigValue]:
        (answer,) = self._run(self._admin.describe_configs([ConfigResource(resource.kind, resource.name)]))
        ((code, message, _kind, _name, entries),) = answer.resources
        if code:
            raise Refused(code, message)
        return {key: ConfigValue(value, source) for key, value, _read_only, source, *_ in entries}

    def replace_configs(self, resource: Resource, configs: Mapping[str, str]) -> None:
        answers = self._run(self._admin.alter_configs([ConfigResource(resource.kind, resource.name, dict(configs))]))
        for answer in answers:
            for code, message, *_ in answer.resources:
                if code:
                    raise Refused(code, message)

    def delete_records(self, topic: str, before_offset: int, *, partition: int = 0) -> int:
        place = TopicPartition(topic, partition)
        deleted = self._run(self._admin.delete_records({place: RecordsToDelete(before_offset)}))
        return cast(int, deleted[place])

    def close(self) -> None:
        if self._opened_admin is not None:
            self._run(self._opened_admin.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def _admin(self) -> Any:
        if self._opened_admin is None:

            async def opened() -> Any:
                admin = AIOKafkaAdminClient(**self._settings)
                await admin.start()
                return admin

            self._opened_admin = self._run(opened())
        return self._opened_admin

    async def _open_reader(self, place: Any, start: int, isolation: str, max_bytes: int) -> "AiokafkaReader":
        consumer = AIOKafkaConsumer(**self._settings, **consumer_settings(isolation, max_bytes))
        await consumer.start()
        consumer.assign([place])
        if start == -2:
            await consumer.seek_to_beginning(place)
        elif start == -1:
            await consumer.seek_to_end(place)
        else:
            consumer.seek(place, start)
        return AiokafkaReader(consumer, self._run)

    def _run(self, work: Awaitable[T]) -> T:
        async def bounded() -> T:
            return await asyncio.wait_for(work, 2 * PATIENCE_S)

        try:
            return asyncio.run_coroutine_threadsafe(bounded(), self._loop).result()
        except KafkaError as error:
            raise _refused(error) from error

    @staticmethod
    def _check(errors: Any) -> None:
        """Each is (topic, code) or (topic, code, message)."""
        for _topic, code, *message in errors:
            if code:
                raise Refused(code, str(message))


class AiokafkaReader:
    def __init__(self, consumer: Any, run: Any) -> None:
        self._consumer = consumer
        self._run = run

    def poll(self, wait_s: float) -> list[Stored]:
        polled = self._run(self._consumer.getmany(timeout_ms=int(wait_s * 1000)))
        return [_stored(record) for records in polled.values() for record in records]

    def close(self) -> None:
        self._run(self._consumer.stop())


def connection_settings(address: Address) -> dict[str, Any]:
    # It tries each of these once: a connection that is cut there is no reason to give up.
    settings: dict[str, Any] = {"bootstrap_servers": address.bootstrap.split(",") * 20, "retry_backoff_ms": 20}
    if address.tls is not None:
        context = ssl.create_default_context(cafile=address.tls.ca_file)
        if address.tls.certificate_file is not None:
            context.load_cert_chain(address.tls.certificate_file, address.tls.key_file)
        settings |= {"security_protocol": "SSL", "ssl_context": context}
    return settings


def producer_settings(how: Sending) -> dict[str, Any]:
    return {
        "compression_type": None if how.compression == "none" else how.compression,
        "acks": how.acks,
        "enable_idempotence": how.idempotent,
        "linger_ms": how.linger_ms,
        "max_batch_size": how.batch_bytes,
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
    code = getattr(error, "errno", None)
    if code is None or code < 0:
        raise error
    return Refused(code, str(error))
