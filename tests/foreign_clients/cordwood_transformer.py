"""Consume, transform, produce with Cordwood's own client."""

from cordwood import (
    ClientError,
    Consumer,
    FatalTransactionError,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    TransactionAbortable,
)
from cordwood.wire.record import ConsumerRecord
from tests.foreign_clients.kafka_client import PATIENCE_S
from tests.foreign_clients.member_journal import Journal
from tests.foreign_clients.transforming import BATCH, Steps, TransformerSpec, transformed


class CordwoodTransformer:
    def __init__(self, spec: TransformerSpec, steps: Steps, journal: Journal) -> None:
        self._spec = spec
        self._steps = steps
        self._journal = journal
        self._producer = Producer(
            bootstrap_servers=spec.bootstrap,
            transactional_id=spec.transactional_id,
            transaction_timeout_ms=20_000,
            linger_ms=2,
            max_block_ms=int(PATIENCE_S * 1000),
        )
        # Ends what a former self has begun.
        self._producer.init_transactions()
        settings: dict[str, object] = {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group,
            "group.protocol": spec.protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.max.wait.ms": 50,
            "max.poll.records": BATCH,
        }
        if spec.protocol == "classic":
            settings |= {"group.instance.id": spec.transactional_id, "heartbeat.interval.ms": 50}
        self._consumer = Consumer(settings)
        self._consumer.subscribe([spec.source])

    def work(self) -> None:
        polled = self._consumer.poll(timeout_ms=50)
        records = [record for records in polled.values() for record in records]
        if not records:
            return
        try:
            self._transform(records)
        except TransactionAbortable as error:
            self._journal.tell("refused", str(error))
            self._producer.abort_transaction()
            self._rewind(records)
        except FatalTransactionError as error:
            self._journal.tell("refused", str(error))
            raise

    def close(self) -> None:
        self._consumer.close()
        self._producer.close()

    def _transform(self, records: list[ConsumerRecord]) -> None:
        membership = self._consumer.group_metadata()
        self._steps.take()
        self._producer.begin_transaction()
        for record in records:
            assert isinstance(record.value, bytes)
            partition = int(record.value) % self._spec.sink_partitions
            self._producer.send(self._spec.sink, transformed(record.value), partition=partition)
        self._steps.take()
        ends = {TopicPartition(r.topic, r.partition): OffsetAndMetadata(r.offset + 1) for r in records}
        self._producer.send_offsets_to_transaction(ends, membership)
        self._steps.take()
        if self._steps.is_to_abort():
            self._producer.abort_transaction()
            self._rewind(records)
        else:
            self._producer.commit_transaction()
        self._steps.take()

    def _rewind(self, records: list[ConsumerRecord]) -> None:
        for record in reversed(records):
            try:
                self._consumer.seek(TopicPartition(record.topic, record.partition), record.offset)
            except ClientError as error:
                # It is no longer ours, or not yet again: the new owner starts at the committed offset.
                self._journal.tell("not sought", str(error))
