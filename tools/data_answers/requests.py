"""Requests in few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from cordwood.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from cordwood.wire.primitives import ZERO_UUID, Uuid

MAX_BYTES = 1 << 20
# The versions of the APIs between which something differs.
PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
LIST_OFFSETS_VERSIONS = range(1, 12)

# A topic, by name or by id, and a partition.
Place = tuple[str | Uuid, int]
Wanted = Mapping[Place, int | Mapping[str, Any]]


def produce(
    topic: str | Uuid,
    records: bytes | bytearray | None,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    return produce_all(
        {(topic, partition): records}, acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id
    )


def produce_all(
    batches: Mapping[Place, bytes | bytearray | None],
    *,
    acks: int = -1,
    timeout_ms: int = 30_000,
    transactional_id: str | None = None,
) -> ProduceRequest:
    topics: dict[str | Uuid, TopicProduceData] = {}
    for (topic, partition), records in batches.items():
        data = topics.setdefault(topic, TopicProduceData(name=_name(topic), topic_id=_id(topic)))
        data.partition_data.append(PartitionProduceData(index=partition, records=records))
    return ProduceRequest(
        acks=acks, timeout_ms=timeout_ms, transactional_id=transactional_id, topic_data=list(topics.values())
    )


def fetch(
    wanted: Wanted,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = MAX_BYTES,
    isolation_level: int = 0,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[Place, ...] = (),
    replica_id: int = -1,
    replica_state: int = -1,
) -> FetchRequest:
    """`wanted`: the offset, or fields of FetchPartition, of each topic (by name or id) and partition."""
    topics: list[FetchTopic] = []
    last: str | Uuid | None = None
    for (topic, partition), said in wanted.items():
        fields = {"fetch_offset": said} if isinstance(said, int) else said
        if topic != last:
            topics.append(FetchTopic(topic=_name(topic), topic_id=_id(topic)))
            last = topic
        topics[-1].partitions.append(
            FetchPartition(**{"partition": partition, "partition_max_bytes": MAX_BYTES, **fields})
        )
    return FetchRequest(
        replica_id=replica_id,
        replica_state=ReplicaState(replica_id=replica_state),
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=topics,
        forgotten_topics_data=[
            ForgottenTopic(topic=_name(topic), topic_id=_id(topic), partitions=[partition])
            for topic, partition in forgotten
        ],
    )


def list_offsets(
    wanted: Mapping[tuple[str, int], int], *, epoch: int = -1, replica_id: int = -1, isolation_level: int = 0
) -> ListOffsetsRequest:
    """`wanted`: the timestamp of each topic and partition."""
    topics: dict[str, ListOffsetsTopic] = {}
    for (topic, partition), timestamp in wanted.items():
        topics.setdefault(topic, ListOffsetsTopic(name=topic)).partitions.append(
            ListOffsetsPartition(partition_index=partition, timestamp=timestamp, current_leader_epoch=epoch)
        )
    return ListOffsetsRequest(replica_id=replica_id, isolation_level=isolation_level, topics=list(topics.values()))


def _name(topic: str | Uuid) -> str:
    return topic if isinstance(topic, str) else ""


def _id(topic: str | Uuid) -> Uuid:
    return topic if isinstance(topic, bytes) else ZERO_UUID
