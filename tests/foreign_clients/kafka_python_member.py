"""A member of a group with kafka-python: the classic protocol."""

from collections.abc import Callable, Iterable
from typing import Any

from tests.foreign_clients.kafka_client import Address
from tests.foreign_clients.kafka_python import (
    ConsumerRebalanceListener,
    CooperativeStickyAssignor,
    KafkaConsumer,
    OffsetAndMetadata,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    TopicPartition,
    errors,
)
from tests.foreign_clients.kafka_python_client import connection_settings
from tests.foreign_clients.member_journal import Journal, Place, Position
from tests.foreign_clients.member_spec import MemberSpec


class KafkaPythonMember:
    def __init__(self, spec: MemberSpec, journal: Journal) -> None:
        self._journal = journal
        self._consumer = KafkaConsumer(**member_settings(spec))
        listener = _Listener(journal, self._consumer)
        if spec.topics[0].startswith("^"):
            self._consumer.subscribe(pattern=spec.topics[0], listener=listener)
        else:
            self._consumer.subscribe(list(spec.topics), listener=listener)

    def poll(self, wait_s: float) -> None:
        # Not shorter: if its time is over just when it has been given its partitions, it never takes notice of them.
        try:
            polled = self._consumer.poll(timeout_ms=int(max(wait_s, 1.0) * 1000))
        except errors.KafkaConnectionError as error:
            self._journal.tell("error", str(error))
            return
        records = [Position(r.topic, r.partition, r.offset) for records in polled.values() for r in records]
        if records:
            self._journal.processed(records)

    def commit(self) -> None:
        offsets = dict(self._journal.uncommitted)
        try:
            self._consumer.commit(
                {TopicPartition(*place): OffsetAndMetadata(offset, "", -1) for place, offset in offsets.items()}
            )
        except errors.KafkaError as error:
            self._journal.tell("refused", str(error))
            # It has stopped being the owner: whoever is, begins where the last commit was.
            if isinstance(error, errors.CommitFailedError):
                self._journal.uncommitted.clear()
        else:
            self._journal.committed(offsets)

    def stall(self, until: Callable[[], object]) -> None:
        until()

    def close(self) -> None:
        self._consumer.close(autocommit=False)


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Is called from within a poll."""

    def __init__(self, journal: Journal, consumer: Any) -> None:
        self._journal = journal
        self._consumer = consumer

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._journal.assigned((Place(*place) for place in assigned), self._consumer.group_metadata().generation_id)

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._journal.revoked(Place(*place) for place in revoked)

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._journal.lost(Place(*place) for place in lost)


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
    }


ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
