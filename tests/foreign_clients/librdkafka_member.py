"""A member of a group with librdkafka: the classic protocol, eager or cooperative, and KIP-848."""

import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.foreign_clients.kafka_client import PATIENCE_S, Address
from tests.foreign_clients.librdkafka_client import connection_settings
from tests.foreign_clients.member_journal import Journal, Place, Position
from tests.foreign_clients.member_spec import MemberSpec


class LibrdkafkaMember:
    def __init__(self, spec: MemberSpec, journal: Journal) -> None:
        self._journal = journal
        self._batch = spec.max_poll_records
        self._commits_async = spec.commits_async
        self._is_closing = False
        self._next_offsets: dict[Place, int] = {}
        self._consumer = Consumer(member_settings(spec) | {"on_commit": self._committed})
        self._consumer.subscribe(
            list(spec.topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost
        )

    def poll(self, wait_s: float) -> None:
        # One by one: `consume` has returned records that it had fetched before its partitions were last taken away.
        for _ in range(self._batch):
            message = self._consumer.poll(wait_s)
            if message is None:
                return
            if self._is_record(message) and not self._is_stale(message):
                self._journal.processed([_position(message)])
            wait_s = 0

    def commit(self) -> None:
        offsets = [TopicPartition(*place, offset) for place, offset in self._journal.uncommitted.items()]
        if self._commits_async:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        else:
            self._commit(offsets)

    def stall(self, until: Callable[[], object]) -> None:
        until()

    def close(self) -> None:
        self._is_closing = True
        self._consumer.close()

    def _commit(self, offsets: list[TopicPartition]) -> None:
        try:
            answers = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as error:
            self._committed(error.args[0], [])
        else:
            assert answers is not None
            self._committed(None, answers)

    def _committed(self, error: KafkaError | None, answers: list[TopicPartition]) -> None:
        if error is not None:
            self._journal.tell("refused", str(error))
            return
        self._journal.committed({_place(answer): answer.offset for answer in answers if answer.error is None})
        for answer in answers:
            if answer.error is not None:
                self._journal.tell("refused", str(answer.error))

    def _is_record(self, message: Message) -> bool:
        if (error := message.error()) is None:
            return True
        # Beside the group's own troubles, of which it recovers automatically, nothing should happen.
        self._journal.tell("error", str(error))
        return False

    def _is_stale(self, message: Message) -> bool:
        """librdkafka may begin to fetch a partition that it was given for a moment only, continue with it, and hand out
        what it has when it is given it again: 0.2 ms after that, which is before it can have asked for anything. The
        records that it should read follow."""
        position = _position(message)
        is_stale = position.offset < self._next_offsets.get(position.place, 0)
        if is_stale:
            self._journal.tell("stale", str(position))
        else:
            self._next_offsets[position.place] = position.offset + 1
        return is_stale

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        # Also called while it is closed, for partitions that it does not take any more.
        if self._is_closing:
            return
        # Before it waits for anything: later it may be another one.
        given_in = generation(self._consumer)
        self._next_offsets |= dict.fromkeys(_places(partitions), 0)
        with suppress(KafkaException):
            committed = self._consumer.committed(partitions, timeout=PATIENCE_S)
            self._next_offsets |= {_place(partition): partition.offset for partition in committed}
        self._journal.assigned(_places(partitions), given_in)

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        places = _places(partitions)
        uncommitted = self._journal.uncommitted
        if offsets := [TopicPartition(*place, uncommitted[place]) for place in places if place in uncommitted]:
            self._commit(offsets)
        self._journal.revoked(places)

    def _lost(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._journal.lost(_places(partitions))


def member_settings(spec: MemberSpec) -> dict[str, Any]:
    settings = connection_settings(Address(spec.bootstrap)) | {
        "group.id": spec.group,
        "group.protocol": spec.protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": spec.max_poll_interval_ms,
        "fetch.wait.max.ms": 100,
        "fetch.error.backoff.ms": 20,
        "fetch.queue.backoff.ms": 20,
        "topic.metadata.refresh.interval.ms": 500,
    }
    if spec.instance_id is not None:
        settings["group.instance.id"] = spec.instance_id
    if spec.protocol == "consumer":
        return settings | {"group.remote.assignor": spec.assignor}
    return settings | {
        "partition.assignment.strategy": spec.assignor,
        "session.timeout.ms": spec.session_timeout_ms,
        "heartbeat.interval.ms": spec.heartbeat_interval_ms,
    }


def generation(consumer: Consumer) -> int:
    """It is available only within the group metadata for producers: a mark of seven bytes, the generation, names."""
    (number,) = struct.unpack_from("=i", consumer.consumer_group_metadata(), 7)
    return cast(int, number)


def _places(partitions: list[TopicPartition]) -> list[Place]:
    return [_place(partition) for partition in partitions]


def _place(partition: TopicPartition) -> Place:
    return Place(partition.topic, partition.partition)


def _position(message: Message) -> Position:
    return Position(cast(str, message.topic()), cast(int, message.partition()), cast(int, message.offset()))
