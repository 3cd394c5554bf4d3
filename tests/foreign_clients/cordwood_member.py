"""A member of a group with Cordwood's own client: the classic protocol, eager or cooperative, and KIP-848."""

from collections.abc import Callable, Sequence

from cordwood import ClientError, CommitFailed, Consumer, TopicPartition
from tests.foreign_clients.member_journal import Journal, Place, Position
from tests.foreign_clients.member_spec import MemberSpec


class CordwoodMember:
    def __init__(self, spec: MemberSpec, journal: Journal) -> None:
        self._journal = journal
        self._consumer = consumer(spec)
        if spec.topics[0].startswith("^"):
            self._consumer.subscribe(pattern=spec.topics[0], listener=self)
        else:
            self._consumer.subscribe(spec.topics, listener=self)

    def poll(self, wait_s: float) -> None:
        polled = self._consumer.poll(timeout_ms=wait_s * 1000)
        records = [Position(r.topic, r.partition, r.offset) for records in polled.values() for r in records]
        if records:
            self._journal.processed(records)

    def commit(self) -> None:
        self._commit(dict(self._journal.uncommitted))

    def stall(self, until: Callable[[], object]) -> None:
        until()

    def close(self) -> None:
        self._consumer.close()

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        self._journal.assigned(_places(assigned), self._consumer.group_metadata().generation_id)

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        places = _places(revoked)
        uncommitted = self._journal.uncommitted
        if offsets := {place: uncommitted[place] for place in places if place in uncommitted}:
            self._commit(offsets)
        self._journal.revoked(places)

    def on_partitions_lost(self, lost: Sequence[TopicPartition]) -> None:
        self._journal.lost(_places(lost))

    def _commit(self, offsets: dict[Place, int]) -> None:
        try:
            self._consumer.commit({TopicPartition(*place): offset for place, offset in offsets.items()})
        except ClientError as error:
            self._journal.tell("refused", str(error))
            if isinstance(error, CommitFailed):
                self._journal.uncommitted.clear()
        else:
            self._journal.committed(offsets)


def consumer(spec: MemberSpec) -> Consumer:
    settings = {
        "bootstrap.servers": spec.bootstrap,
        "group.id": spec.group,
        "group.protocol": spec.protocol,
        "group.instance.id": spec.instance_id,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": spec.max_poll_interval_ms,
        "max.poll.records": spec.max_poll_records,
        "fetch.max.wait.ms": 100,
        "metadata.max.age.ms": 500,
    }
    if spec.protocol == "consumer":
        return Consumer(settings | {"group.remote.assignor": spec.assignor})
    return Consumer(
        settings
        | {
            "partition.assignment.strategy": spec.assignor,
            "session.timeout.ms": spec.session_timeout_ms,
            "heartbeat.interval.ms": spec.heartbeat_interval_ms,
        }
    )


def _places(partitions: Sequence[TopicPartition]) -> list[Place]:
    return [Place(*partition) for partition in partitions]
