"""A client's view of a cluster: brokers, topics, leaders. An immutable value; each Metadata response creates a new
one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from cordwood.client.errors import BrokerError
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from cordwood.wire.primitives import Uuid


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Broker:
    id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    index: int
    leader: int
    """-1 if there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Topic:
    name: str
    id: Uuid
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]
    """The partitions by index, without gaps."""


@dataclass(frozen=True, slots=True)
class Cluster:
    id: str | None = None
    controller: int = -1
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)

    def leader(self, partition: TopicPartition) -> int:
        """Raises a retriable `BrokerError` if the leader is unknown, or there is none."""
        leader = self.partition(partition).leader
        if leader not in self.brokers:
            raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, subject=str(partition))
        return leader

    def partition(self, partition: TopicPartition) -> PartitionInfo:
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.partitions):
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=str(partition))
        return topic.partitions[partition.partition]

    def topic_name(self, topic_id: Uuid) -> str | None:
        return next((topic.name for topic in self.topics.values() if topic.id == topic_id), None)

    def updated(self, response: MetadataResponse, *, has_all_topics: bool = False) -> "Cluster":
        """Removes topics that the response reports as missing, and topics that a complete response does not contain."""
        topics = {} if has_all_topics else dict(self.topics)
        for told in response.topics:
            if told.name is None:
                continue
            if told.error_code == ErrorCode.NONE:
                topics[told.name] = _topic(told, self.topics.get(told.name))
            elif told.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                topics.pop(told.name, None)
        brokers = {
            broker.node_id: Broker(broker.node_id, Address(broker.host, broker.port), broker.rack)
            for broker in response.brokers
        }
        return replace(
            self,
            id=response.cluster_id if response.cluster_id is not None else self.id,
            controller=response.controller_id,
            # A broker that has just started may list none; the known brokers are better than nothing.
            brokers=brokers or self.brokers,
            topics=topics,
        )

    def led_by(self, leaders: Mapping[TopicPartition, tuple[int, int]], brokers: Iterable[Broker]) -> "Cluster":
        """Applies the leaders and epochs that a broker reported for partitions it does not lead (KIP-951)."""
        topics = dict(self.topics)
        for (name, index), (leader, epoch) in leaders.items():
            topic = topics.get(name)
            if topic is None or index >= len(topic.partitions) or topic.partitions[index].leader_epoch >= epoch:
                continue
            partitions = list(topic.partitions)
            partitions[index] = replace(partitions[index], leader=leader, leader_epoch=epoch)
            topics[name] = replace(topic, partitions=tuple(partitions))
        return replace(self, brokers={**self.brokers, **{broker.id: broker for broker in brokers}}, topics=topics)


def _topic(told: MetadataResponseTopic, known: Topic | None) -> Topic:
    assert told.name is not None
    before = known.partitions if known is not None and known.id == told.topic_id else ()
    partitions = tuple(
        _newer(_partition(partition), before)
        for partition in sorted(told.partitions, key=lambda partition: partition.partition_index)
    )
    return Topic(told.name, told.topic_id, told.is_internal, partitions)


def _newer(told: PartitionInfo, before: tuple[PartitionInfo, ...]) -> PartitionInfo:
    """Keeps the newer epoch: a lagging broker must not lead back to an old leader (KIP-320)."""
    if told.index < len(before) and 0 <= told.leader_epoch < before[told.index].leader_epoch:
        return before[told.index]
    return told


def _partition(told: MetadataResponsePartition) -> PartitionInfo:
    return PartitionInfo(
        told.partition_index,
        told.leader_id,
        told.leader_epoch,
        tuple(told.replica_nodes),
        tuple(told.isr_nodes),
        tuple(told.offline_replicas),
    )
