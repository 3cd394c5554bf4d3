"""A transactional producer's machine with brokers played by the test, on a clock that the test sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.producer.transactions.machine import Transactions
from cordwood.client.producer.transactions.operation import Operation
from cordwood.client.producer.transactions.requests import Ask
from cordwood.net.peers.backoff import Backoff
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from cordwood.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from cordwood.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
GROUP = GroupMetadata("g", 7, "m", "i")
OFFSETS = {P0: OffsetAndMetadata(42, "here", 3)}
BACKOFF_MS = 100
PRODUCER_ID = 1000


@dataclass
class Scripted:
    """`ask` and `answer` are one exchange each; `settle` answers all there is as brokers do that are well."""

    version: int = 2
    two_phases: bool = False
    now_s: float = 0.0
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        settings = ProducerSettings(transactional_id="id", transaction_two_phase_commit_enable=self.two_phases)
        self.machine = Transactions(settings, Backoff(BACKOFF_MS, 1000, SeededRandom(1)))
        self.machine.learn_version(self.version, 1)
        self.epoch = -1

    def ask(self, *, has_incomplete: bool = False) -> Ask:
        ask = self.next_ask(has_incomplete=has_incomplete)
        assert ask is not None, f"nothing is asked for in {self.machine.state}"
        return ask

    def next_ask(self, *, has_incomplete: bool = False) -> Ask | None:
        ask = self.machine.next_ask(self.now_s, has_incomplete=has_incomplete)
        if ask is not None:
            self.asked.append(type(ask.request).__name__.removesuffix("Request"))
        return ask

    def answer(self, ask: Ask, error: ErrorCode = ErrorCode.NONE) -> None:
        self.machine.answered(ask, self.response(ask.request, error), self.now_s)

    def refuse(self, error: ErrorCode) -> None:
        """The next request is answered with this."""
        self.answer(self.ask(), error)

    def settle(self, *, has_incomplete: bool = False) -> None:
        while (ask := self.next_ask(has_incomplete=has_incomplete)) is not None:
            self.answer(ask)

    def pause(self) -> float:
        """Goes on to when the machine asks again."""
        pause_s = self.machine.next_check_s(self.now_s) - self.now_s
        self.now_s += pause_s
        return pause_s

    def response(self, request: Any, error: ErrorCode) -> Any:
        match request:
            case InitProducerIdRequest():
                self.epoch += 1
                return InitProducerIdResponse(error_code=error, producer_id=PRODUCER_ID, producer_epoch=self.epoch)
            case AddPartitionsToTxnRequest():
                asked = [(topic.name, topic.partitions) for topic in request.v3_and_below_topics]
                return added({TopicPartition(topic, index): error for topic, some in asked for index in some})
            case AddOffsetsToTxnRequest():
                return AddOffsetsToTxnResponse(error_code=error)
            case TxnOffsetCommitRequest():
                partitions = [(topic.name, one.partition_index) for topic in request.topics for one in topic.partitions]
                return committed({TopicPartition(*one): error for one in partitions})
            case EndTxnRequest():
                if self.machine.is_version_2:
                    self.epoch += 1
                    return EndTxnResponse(error_code=error, producer_id=PRODUCER_ID, producer_epoch=self.epoch)
                return EndTxnResponse(error_code=error)
        raise AssertionError(request)

    # ---- on the way to a state

    def ready(self) -> "Scripted":
        operation = self.machine.initialize()
        self.settle()
        operation.take()
        return self

    def begun(self) -> "Scripted":
        self.ready().machine.begin()
        return self

    def written(self, *partitions: TopicPartition) -> "Scripted":
        """With records in these partitions, acknowledged."""
        self.begun()
        for partition in partitions or (P0,):
            self.machine.add_partition(partition)
        self.settle()
        self.asked.clear()
        return self

    def finish(self, operation: Operation) -> None:
        self.settle()
        operation.take()


def added(errors: Mapping[TopicPartition, ErrorCode]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=partition.topic,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=partition.partition, partition_error_code=errors[partition]
                    )
                ],
            )
            for partition in errors
        ]
    )


def committed(errors: Mapping[TopicPartition, ErrorCode]) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=partition.topic,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=partition.partition, error_code=errors[partition])
                ],
            )
            for partition in errors
        ]
    )


def partitions_of(ask: Ask) -> Sequence[tuple[str, Sequence[int]]]:
    assert isinstance(ask.request, AddPartitionsToTxnRequest)
    return [(topic.name, topic.partitions) for topic in ask.request.v3_and_below_topics]
