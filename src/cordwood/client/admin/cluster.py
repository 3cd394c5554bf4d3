"""The cluster: brokers, controllers, features, the quorum; unregistering a broker."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum

from cordwood import __version__
from cordwood.client.admin.results import failure
from cordwood.client.client import Client
from cordwood.client.cluster import Broker
from cordwood.client.errors import BrokerError, NetworkFailed, UnsupportedByBroker
from cordwood.net.peers.versions import PeerVersions
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from cordwood.wire.messages.add_raft_voter import Listener as VoterListener
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from cordwood.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from cordwood.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from cordwood.wire.primitives import Uuid

_METADATA_TOPIC = "__cluster_metadata"
_CONTROLLERS = 2


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    id: str
    controller: int
    """In KRaft, as reported by brokers: not the quorum's leader, but a broker that forwards requests to it."""
    brokers: tuple[Broker, ...]
    """If controllers were asked, the controllers."""
    fenced: frozenset[int]


@dataclass(frozen=True, slots=True)
class FeatureLevels:
    """`finalized` is the level that the whole cluster uses; None if it is off."""

    name: str
    finalized: int | None
    min_supported: int
    max_supported: int


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3
    """Metadata may be lost."""


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    level: int
    """0 turns the feature off."""
    upgrade_type: UpgradeType = UpgradeType.UPGRADE


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
    controllers: Mapping[int, tuple[Address, ...]]
    """The addresses of each controller's listeners; empty before Kafka 3.9."""


async def describe_cluster(client: Client, *, include_fenced: bool = False) -> ClusterDescription:
    return _described(await client.ask_any(DescribeClusterRequest(include_fenced_brokers=include_fenced)))


async def describe_controllers(client: Client) -> ClusterDescription:
    """Asks the controllers themselves, whose addresses come from DescribeQuorum (Kafka 3.9+)."""
    quorum = await describe_quorum(client)
    addresses = [address for listeners in quorum.controllers.values() for address in listeners]
    if not addresses:
        raise UnsupportedByBroker("the broker does not report the controllers' addresses")
    failures = []
    for address in addresses:
        try:
            connection = await client.connection(address)
            request = DescribeClusterRequest(endpoint_type=_CONTROLLERS)
            return _described(await connection.ask(request))
        except NetworkFailed as error:
            failures.append(str(error))
    raise NetworkFailed("no controller answers: " + "; ".join(failures))


async def describe_features(client: Client) -> list[FeatureLevels]:
    # Query again: the information from when the connection was opened may be stale.
    request = ApiVersionsRequest(client_software_name="cordwood", client_software_version=__version__)
    response = await client.ask_any(request)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code)
    versions = PeerVersions(response)
    return [
        FeatureLevels(name, versions.finalized_features.get(name), supported.low, supported.high)
        for name, supported in sorted(versions.supported_features.items())
    ]


async def update_features(
    client: Client, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
) -> dict[str, BrokerError | None]:
    """Returns the result for each feature; None is success."""
    request = UpdateFeaturesRequest(
        timeout_ms=client.settings.request_timeout_ms,
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=update.level, upgrade_type=update.upgrade_type)
            for name, update in updates.items()
        ],
        validate_only=validate_only,
    )

    def errors(response: UpdateFeaturesResponse) -> Collection[int]:
        return [response.error_code]

    response = await client.ask_controller(request, errors)
    outcomes = {told.feature: failure(told.error_code, told.error_message, told.feature) for told in response.results}
    if response.error_code != ErrorCode.NONE:
        # All or nothing: from version 2 on one error applies to all features.
        if any(outcomes.values()):
            return {name: outcomes.get(name) for name in updates}
        raise BrokerError(response.error_code, response.error_message)
    return {name: outcomes.get(name) for name in updates}


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Unregisters a broker that will not come back (KRaft). Raises a `BrokerError`."""

    def errors(response: UnregisterBrokerResponse) -> Collection[int]:
        return [response.error_code]

    response = await client.ask_controller(UnregisterBrokerRequest(broker_id=broker_id), errors)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message, f"broker {broker_id}")


async def add_voter(client: Client, voter_id: int, directory_id: Uuid, endpoints: Mapping[str, Address]) -> None:
    """Raises a `BrokerError`."""
    request = AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=client.settings.request_timeout_ms,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=[VoterListener(name=name, host=where.host, port=where.port) for name, where in endpoints.items()],
    )

    def errors(response: AddRaftVoterResponse) -> Collection[int]:
        return [response.error_code]

    response = await client.ask_controller(request, errors)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message, f"controller {voter_id}")


async def remove_voter(client: Client, voter_id: int, directory_id: Uuid) -> None:
    """Raises a `BrokerError`."""
    request = RemoveRaftVoterRequest(cluster_id=None, voter_id=voter_id, voter_directory_id=directory_id)

    def errors(response: RemoveRaftVoterResponse) -> Collection[int]:
        return [response.error_code]

    response = await client.ask_controller(request, errors)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message, f"controller {voter_id}")


async def describe_quorum(client: Client) -> Quorum:
    """Raises `UnsupportedByBroker` if there is no quorum: before KRaft."""
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
        {
            node.node_id: tuple(Address(listener.host, listener.port) for listener in node.listeners)
            for node in response.nodes
        },
    )


def _described(response: DescribeClusterResponse) -> ClusterDescription:
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message)
    brokers = sorted(
        (Broker(told.broker_id, Address(told.host, told.port), told.rack) for told in response.brokers),
        key=lambda broker: broker.id,
    )
    fenced = frozenset(told.broker_id for told in response.brokers if told.is_fenced)
    return ClusterDescription(response.cluster_id, response.controller_id, tuple(brokers), fenced)


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
