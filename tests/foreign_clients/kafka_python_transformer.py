"""Consume, transform, produce with kafka-python."""

from typing import Any

from tests.foreign_clients.kafka_client import PATIENCE_S, Address
from tests.foreign_clients.kafka_python import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition, errors
from tests.foreign_clients.kafka_python_client import connection_settings
from tests.foreign_clients.member_journal import Journal
from tests.foreign_clients.transforming import BATCH, Steps, TransformerSpec, transformed


class KafkaPythonTransformer:
    def __init__(self, spec: TransformerSpec, steps: Steps, journal: Journal) -> None:
        self._spec = spec
        self._steps = steps
        self._journal = journal
        connection = connection_settings(Address(spec.bootstrap))
        self._producer = KafkaProducer(
            **connection, transactional_id=spec.transactional_id, transaction_timeout_ms=20_000, linger_ms=2
        )
        # Ends what a former self has begun.
        self._producer.init_transactions()
        self._consumer = KafkaConsumer(
            **connection,
            group_id=spec.group,
            group_instance_id=spec.transactional_id,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            heartbeat_interval_ms=50,
            fetch_max_wait_ms=50,
            metadata_max_age_ms=500,
        )
        self._consumer.subscribe([spec.source])

    def work(self) -> None:
        # A shorter poll may end between its being given partitions and its taking notice of them.
        polled = self._consumer.poll(timeout_ms=1000, max_records=BATCH)
        records = [record for records in polled.values() for record in records]
        if not records:
            return
        try:
            self._transform(records)
        except errors.KafkaError as error:
            self._journal.tell("refused", repr(error))
            if isinstance(error, errors.ProducerFencedError):
                raise
            self._producer.abort_transaction()
            self._rewind(records)

    def close(self) -> None:
        self._consumer.close(autocommit=False)
        self._producer.close(timeout=PATIENCE_S)

    def _transform(self, records: list[Any]) -> None:
        membership = self._consumer.group_metadata()
        self._steps.take()
        self._producer.begin_transaction()
        for record in records:
            self._producer.send(
                self._spec.sink, transformed(record.value), partition=int(record.value) % self._spec.sink_partitions
            )
        self._steps.take()
        ends = {TopicPartition(r.topic, r.partition): OffsetAndMetadata(r.offset + 1, "", -1) for r in records}
        self._producer.send_offsets_to_transaction(ends, membership)
        self._steps.take()
        if self._steps.is_to_abort():
            self._producer.abort_transaction()
            self._rewind(records)
        else:
            self._producer.commit_transaction()
        self._steps.take()

    def _rewind(self, records: list[Any]) -> None:
        for record in reversed(records):
            place = TopicPartition(record.topic, record.partition)
            if place in self._consumer.assignment():
                self._consumer.seek(place, record.offset)
