"""Consume, transform, produce with aiokafka.

Its producer does not send the committing member of the group, so that a member that has lost its partitions is not
fenced. Each transactional id has its own partitions instead.
"""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition  # type: ignore[import-untyped]
from aiokafka.errors import KafkaError, ProducerFenced  # type: ignore[import-untyped]

from tests.foreign_clients.aiokafka_client import connection_settings
from tests.foreign_clients.kafka_client import PATIENCE_S, Address
from tests.foreign_clients.member_journal import Journal
from tests.foreign_clients.transforming import BATCH, Steps, TransformerSpec, transformed


class AiokafkaTransformer:
    def __init__(self, spec: TransformerSpec, steps: Steps, journal: Journal) -> None:
        self._spec = spec
        self._steps = steps
        self._journal = journal
        self._loop = asyncio.new_event_loop()
        self._loop.run_until_complete(self._start())

    def work(self) -> None:
        self._loop.run_until_complete(self._work())

    def close(self) -> None:
        self._loop.run_until_complete(self._consumer.stop())
        self._loop.run_until_complete(self._producer.stop())

    async def _start(self) -> None:
        connection = connection_settings(Address(self._spec.bootstrap))
        self._producer = AIOKafkaProducer(
            **connection, transactional_id=self._spec.transactional_id, transaction_timeout_ms=20_000, linger_ms=2
        )
        # Ends what a former self has begun.
        await asyncio.wait_for(self._producer.start(), PATIENCE_S)
        self._consumer = AIOKafkaConsumer(
            **connection,
            group_id=self._spec.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=50,
        )
        await asyncio.wait_for(self._consumer.start(), PATIENCE_S)
        assert self._spec.partitions is not None
        self._consumer.assign([TopicPartition(self._spec.source, partition) for partition in self._spec.partitions])

    async def _work(self) -> None:
        polled = await self._consumer.getmany(timeout_ms=50, max_records=BATCH)
        records = [record for records in polled.values() for record in records]
        if not records:
            return
        try:
            await asyncio.wait_for(self._transform(records), PATIENCE_S)
        except KafkaError as error:
            self._journal.tell("refused", repr(error))
            if isinstance(error, ProducerFenced):
                raise
            await self._producer.abort_transaction()
            self._rewind(records)

    async def _transform(self, records: list[Any]) -> None:
        self._steps.take()
        await self._producer.begin_transaction()
        for record in records:
            await self._producer.send(
                self._spec.sink, transformed(record.value), partition=int(record.value) % self._spec.sink_partitions
            )
        self._steps.take()
        ends = {TopicPartition(record.topic, record.partition): record.offset + 1 for record in records}
        await self._producer.send_offsets_to_transaction(ends, self._spec.group)
        self._steps.take()
        if self._steps.is_to_abort():
            await self._producer.abort_transaction()
            self._rewind(records)
        else:
            await self._producer.commit_transaction()
        self._steps.take()

    def _rewind(self, records: list[Any]) -> None:
        for record in reversed(records):
            self._consumer.seek(TopicPartition(record.topic, record.partition), record.offset)
