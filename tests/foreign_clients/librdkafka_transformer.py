"""Consume, transform, produce with librdkafka.

Its `send_offsets_to_transaction` does not heed its timeout, and may wait forever once the group's coordinator has died
and Metadata does not name that broker any more (confluentinc/librdkafka#5456, #5511). All that a program can do about
it is to end, and to be started again.
"""

from typing import cast

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.foreign_clients.kafka_client import PATIENCE_S, Address
from tests.foreign_clients.librdkafka_client import connection_settings
from tests.foreign_clients.member_journal import Journal
from tests.foreign_clients.transforming import BATCH, Steps, TransformerSpec, limited, transformed

# The limit for a call whose timeout is half of it.
STALLED_AFTER_S = 20.0


class LibrdkafkaTransformer:
    def __init__(self, spec: TransformerSpec, steps: Steps, journal: Journal) -> None:
        self._spec = spec
        self._steps = steps
        self._journal = journal
        connection = connection_settings(Address(spec.bootstrap))
        self._producer = Producer(
            connection | {"transactional.id": spec.transactional_id, "transaction.timeout.ms": 20_000, "linger.ms": 2}
        )
        # Ends what a former self has begun.
        self._producer.init_transactions(PATIENCE_S)
        settings = {
            "group.id": spec.group,
            "group.protocol": spec.protocol,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
        if spec.protocol == "classic":
            settings |= {"group.instance.id": spec.transactional_id, "heartbeat.interval.ms": 50}
        self._consumer = Consumer(connection | settings)
        self._consumer.subscribe([spec.source])

    def work(self) -> None:
        # At once: what it has to give up meanwhile is not among them.
        messages = [message for message in self._consumer.consume(BATCH, 0.05) if message.error() is None]
        if not messages:
            return
        try:
            self._transform(messages)
        except KafkaException as error:
            self._journal.tell("refused", str(error.args[0]))
            if error.args[0].fatal():
                raise
            self._producer.abort_transaction(PATIENCE_S)
            self._rewind(messages)

    def close(self) -> None:
        self._consumer.close()

    def _transform(self, messages: list[Message]) -> None:
        membership = self._consumer.consumer_group_metadata()
        self._steps.take()
        self._producer.begin_transaction()
        for message in messages:
            value = cast(bytes, message.value())
            self._producer.produce(
                self._spec.sink, transformed(value), partition=int(value) % self._spec.sink_partitions
            )
        self._steps.take()
        with limited(STALLED_AFTER_S):
            self._producer.send_offsets_to_transaction(_ends(messages), membership, STALLED_AFTER_S / 2)
        self._steps.take()
        if self._steps.is_to_abort():
            self._producer.abort_transaction(PATIENCE_S)
            self._rewind(messages)
        else:
            self._producer.commit_transaction(PATIENCE_S)
        self._steps.take()

    def _rewind(self, messages: list[Message]) -> None:
        for message in reversed(messages):
            place = TopicPartition(
                cast(str, message.topic()), cast(int, message.partition()), cast(int, message.offset())
            )
            try:
                self._consumer.seek(place)
            except KafkaException as error:
                # It is no longer ours, or not yet again: the new owner starts at the committed offset.
                self._journal.tell("not sought", str(error.args[0]))


def _ends(messages: list[Message]) -> list[TopicPartition]:
    ends = {(cast(str, m.topic()), cast(int, m.partition())): cast(int, m.offset()) + 1 for m in messages}
    return [TopicPartition(*place, end) for place, end in ends.items()]
