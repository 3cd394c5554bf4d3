"""What a cluster is made of: brokers, features, the quorum of its controllers."""

from dataclasses import dataclass

from cordwood.client.client import Client
from cordwood.client.cluster import Broker
from cordwood.client.errors import BrokerError
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_cluster import DescribeClusterRequest
from cordwood.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.primitives import Uuid

_METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    id: str
    controller: int
    """In KRaft not the quorum's leader, but a broker that passes requests on to it."""
    brokers: tuple[Broker, ...]
    fenced: frozenset[int]


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """`finalized` is what the whole cluster uses; None if it is off."""

    name: str
    finalized: int | None
    min_supported: int
    max_supported: int


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class Quorum:
    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]


async def describe_cluster(client: Client) -> ClusterDescription:
    response = await client.ask_any(DescribeClusterRequest())
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message)
    brokers = sorted(
        (Broker(told.broker_id, Address(told.host, told.port), told.rack) for told in response.brokers),
        key=lambda broker: broker.id,
    )
    fenced = frozenset(told.broker_id for told in response.brokers if told.is_fenced)
    return ClusterDescription(response.cluster_id, response.controller_id, tuple(brokers), fenced)


async def describe_features(client: Client) -> list[FeatureLevels]:
    versions = (await client.any_broker()).versions
    return [
        FeatureLevels(name, versions.finalized_features.get(name), supported.low, supported.high)
        for name, supported in sorted(versions.supported_features.items())
    ]


async def describe_quorum(client: Client) -> Quorum:
    """Raises `UnsupportedByBroker` where there is none: before KRaft."""
    partition = RequestPartitionData(partition_index=0)
    request = DescribeQuorumRequest(topics=[RequestTopicData(topic_name=_METADATA_TOPIC, partitions=[partition])])
    response = await client.ask_any(request)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message, _METADATA_TOPIC)
    told = response.topics[0].partitions[0]
    if told.error_code != ErrorCode.NONE:
        raise BrokerError(told.error_code, told.error_message, _METADATA_TOPIC)
    return Quorum(
        told.leader_id,
        told.leader_epoch,
        told.high_watermark,
        tuple(_replica(state) for state in told.current_voters),
        tuple(_replica(state) for state in told.observers),
    )


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
