"""A member of a group with aiokafka: the classic protocol. Its loop runs while it polls, commits or stalls."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from aiokafka import (  # type: ignore[import-untyped]
    AIOKafkaConsumer,
    ConsumerRebalanceListener,
    OffsetAndMetadata,
    TopicPartition,
)
from aiokafka.coordinator.assignors.range import RangePartitionAssignor  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor  # type: ignore[import-untyped]
from aiokafka.coordinator.assignors.sticky.sticky_assignor import (  # type: ignore[import-untyped]
    StickyPartitionAssignor,
)
from aiokafka.errors import CommitFailedError, KafkaError  # type: ignore[import-untyped]

from tests.foreign_clients.aiokafka_client import connection_settings
from tests.foreign_clients.kafka_client import Address
from tests.foreign_clients.member_journal import Journal, Place, Position
from tests.foreign_clients.member_spec import MemberSpec


class AiokafkaMember:
    def __init__(self, spec: MemberSpec, journal: Journal) -> None:
        self._journal = journal
        self._loop = asyncio.new_event_loop()
        self._consumer = self._loop.run_until_complete(self._joined(spec))

    def poll(self, wait_s: float) -> None:
        self._loop.run_until_complete(self._poll(wait_s))

    def commit(self) -> None:
        self._loop.run_until_complete(self._commit())

    def stall(self, until: Callable[[], object]) -> None:
        self._loop.run_until_complete(self._loop.run_in_executor(None, until))

    def close(self) -> None:
        # It does not call its listener when it leaves a group, but may still be given something.
        self._listener.is_closing = True
        self._journal.revoked(self._journal.owned)
        self._loop.run_until_complete(self._consumer.stop())

    async def _joined(self, spec: MemberSpec) -> Any:
        consumer = AIOKafkaConsumer(**member_settings(spec))
        listener = self._listener = _Listener(self._journal, consumer, self._commit)
        self._consumer = consumer
        if spec.topics[0].startswith("^"):
            consumer.subscribe(pattern=spec.topics[0], listener=listener)
        else:
            consumer.subscribe(list(spec.topics), listener=listener)
        await consumer.start()
        return consumer

    async def _poll(self, wait_s: float) -> None:
        polled = await self._consumer.getmany(timeout_ms=int(wait_s * 1000))
        # From here on nothing else runs until they are written down.
        records = [Position(r.topic, r.partition, r.offset) for records in polled.values() for r in records]
        if records:
            self._journal.processed(records)

    async def _commit(self) -> None:
        offsets = dict(self._journal.uncommitted)
        try:
            await self._consumer.commit(
                {TopicPartition(*place): OffsetAndMetadata(offset, "") for place, offset in offsets.items()}
            )
        except KafkaError as error:
            self._journal.tell("refused", repr(error))
            if isinstance(error, CommitFailedError):
                self._journal.uncommitted.clear()
        else:
            self._journal.committed(offsets)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Is called whenever the loop runs: it rebalances in the background."""

    def __init__(self, journal: Journal, consumer: Any, commit: Callable[[], Any]) -> None:
        self._journal = journal
        self._consumer = consumer
        self._commit = commit
        self.is_closing = False

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        if self.is_closing:
            return
        self._journal.assigned((Place(*place) for place in assigned), self._consumer._coordinator.generation)

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        if self._journal.uncommitted:
            await self._commit()
        self._journal.revoked(Place(*place) for place in revoked)


def member_settings(spec: MemberSpec) -> dict[str, Any]:
    assert spec.protocol == "classic"
    return connection_settings(Address(spec.bootstrap)) | {
        "group_id": spec.group,
        "group_instance_id": spec.instance_id,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "partition_assignment_strategy": [ASSIGNORS[spec.assignor]],
        "session_timeout_ms": spec.session_timeout_ms,
        "heartbeat_interval_ms": spec.heartbeat_interval_ms,
        "max_poll_interval_ms": spec.max_poll_interval_ms,
        "max_poll_records": spec.max_poll_records,
        "fetch_max_wait_ms": 100,
        "metadata_max_age_ms": 500,
        "consumer_timeout_ms": 50,
    }


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
