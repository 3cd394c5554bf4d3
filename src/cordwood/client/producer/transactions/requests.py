"""The machine's requests: receiver, versions, and contents.

A version of a request may imply a version of transactions (KIP-890): EndTxn and TxnOffsetCommit from 5 on, and Produce
from 12 on, belong to `transaction.version` 2, so a transaction of version 1 does not use them, and one of version 2 no
older ones.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import groupby
from operator import attrgetter
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from cordwood.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from cordwood.wire.messages.end_txn import EndTxnRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from cordwood.wire.schema import Request

# The first version of each that implies transactions of version 2.
PRODUCE_V2 = 12
_END_TXN_V2 = 5
_TXN_OFFSET_COMMIT_V2 = 5
# Versions from 4 on are for brokers only.
_ADD_PARTITIONS_LAST_OF_CLIENTS = 3
# The first versions with the producer's epoch (KIP-360) and with two-phase commit (KIP-939).
_INIT_WITH_EPOCH = 3
_INIT_TWO_PHASES = 6

_topic_of = attrgetter("topic")


class To(Enum):
    """The broker that coordinates the transactional id, or a group."""

    TRANSACTION_COORDINATOR = "transaction"
    GROUP_COORDINATOR = "group"


@dataclass(frozen=True, slots=True)
class Ask:
    """At most one is in flight. `Transactions.answered` or `failed` follows."""

    request: Request[Any]
    to: To
    key: str
    """The transactional id or the group's."""
    at_least: int = 0
    at_most: int | None = None
    look_up: bool = False
    """True if the known coordinator is no longer valid."""


def init_producer_id(
    transactional_id: str,
    timeout_ms: int,
    identity: ProducerIdentity | None,
    *,
    two_phases: bool,
    keep_prepared: bool,
) -> Ask:
    """With an identity it requests its next epoch."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        enable2_pc=two_phases,
        keep_prepared_txn=keep_prepared,
    )
    if identity is not None:
        request.producer_id, request.producer_epoch = identity
    at_least = _INIT_TWO_PHASES if two_phases else _INIT_WITH_EPOCH if identity is not None else 0
    return Ask(request, To.TRANSACTION_COORDINATOR, transactional_id, at_least)


def add_partitions(transactional_id: str, identity: ProducerIdentity, partitions: Collection[TopicPartition]) -> Ask:
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.id,
        v3_and_below_producer_epoch=identity.epoch,
        v3_and_below_topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=[partition.partition for partition in of_topic])
            for topic, of_topic in _by_topic(partitions)
        ],
    )
    return Ask(request, To.TRANSACTION_COORDINATOR, transactional_id, at_most=_ADD_PARTITIONS_LAST_OF_CLIENTS)


def add_offsets(transactional_id: str, identity: ProducerIdentity, group_id: str) -> Ask:
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.id,
        producer_epoch=identity.epoch,
        group_id=group_id,
    )
    return Ask(request, To.TRANSACTION_COORDINATOR, transactional_id)


def txn_offset_commit(
    transactional_id: str,
    identity: ProducerIdentity,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    version_2: bool,
) -> Ask:
    request = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.id,
        producer_epoch=identity.epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            TxnOffsetCommitRequestTopic(
                name=topic, partitions=[_committed(partition, offsets[partition]) for partition in of_topic]
            )
            for topic, of_topic in _by_topic(offsets)
        ],
    )
    return Ask(request, To.GROUP_COORDINATOR, group.group_id, *_versions(_TXN_OFFSET_COMMIT_V2, version_2))


def end_txn(transactional_id: str, identity: ProducerIdentity, *, commit: bool, version_2: bool) -> Ask:
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.id,
        producer_epoch=identity.epoch,
        committed=commit,
    )
    return Ask(request, To.TRANSACTION_COORDINATOR, transactional_id, *_versions(_END_TXN_V2, version_2))


def _by_topic(partitions: Iterable[TopicPartition]) -> Iterable[tuple[str, Iterable[TopicPartition]]]:
    return groupby(sorted(partitions), _topic_of)


def _committed(partition: TopicPartition, committed: OffsetAndMetadata) -> TxnOffsetCommitRequestPartition:
    return TxnOffsetCommitRequestPartition(
        partition_index=partition.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=-1 if committed.leader_epoch is None else committed.leader_epoch,
        committed_metadata=committed.metadata,
    )


def _versions(first_of_version_2: int, version_2: bool) -> tuple[int, int | None]:
    return (first_of_version_2, None) if version_2 else (0, first_of_version_2 - 1)
