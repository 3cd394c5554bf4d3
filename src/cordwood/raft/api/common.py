"""Common parts of the quorum's requests."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

from cordwood.raft.effects import LogSlice, Respond, SnapshotSlice
from cordwood.raft.events import RequestReceived
from cordwood.raft.identity import NO_NODE, Endpoint, Endpoints, Node, ReplicaKey
from cordwood.raft.replica import Replica
from cordwood.raft.states import Leader, Unattached
from cordwood.wire.errors import ErrorCode
from cordwood.wire.primitives import Uuid
from cordwood.wire.schema import Response

logger = logging.getLogger(__name__)

TOPIC = "__cluster_metadata"
TOPIC_ID: Uuid = bytes(15) + b"\x01"
PARTITION = 0

P = TypeVar("P", bound="_Partition", covariant=True)
A = TypeVar("A", bound="_PartitionAnswer", covariant=True)


class _Partition(Protocol):
    @property
    def partition_index(self) -> int: ...


class _Topic(Protocol[P]):
    @property
    def topic_name(self) -> str: ...

    @property
    def partitions(self) -> Sequence[P]: ...


class _PartitionAnswer(_Partition, Protocol):
    @property
    def error_code(self) -> int: ...

    @property
    def leader_id(self) -> int: ...

    @property
    def leader_epoch(self) -> int: ...


class _NodeEndpoint(Protocol):
    @property
    def node_id(self) -> int: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


class _VoterResponse(Protocol[A]):
    @property
    def error_code(self) -> int: ...

    @property
    def topics(self) -> Sequence[_Topic[A]]: ...

    @property
    def node_endpoints(self) -> Sequence[_NodeEndpoint]: ...


class _Listener(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def host(self) -> str: ...

    @property
    def port(self) -> int: ...


def only_partition(topics: Sequence[_Topic[P]]) -> P | None:
    """The one partition that there is; None if a message names anything else."""
    if len(topics) != 1 or topics[0].topic_name != TOPIC or len(topics[0].partitions) != 1:
        return None
    partition = topics[0].partitions[0]
    return partition if partition.partition_index == PARTITION else None


def respond(
    replica: Replica,
    received: RequestReceived,
    response: Response,
    records: LogSlice | SnapshotSlice | None = None,
) -> None:
    replica.outbox.append(Respond(received.request_id, response, records))


def has_cluster_id(replica: Replica, cluster_id: str | None) -> bool:
    return cluster_id is None or cluster_id == replica.config.cluster_id


def is_meant_for(replica: Replica, voter: ReplicaKey) -> bool:
    """True unless a voter request names another replica; old versions name none."""
    return voter.id < 0 or voter.matches(replica.config.local.key)


def voter_only_error(replica: Replica, remote_id: int, epoch: int) -> ErrorCode:
    """Checks requests about leadership: Vote, BeginQuorumEpoch, EndQuorumEpoch."""
    if epoch < replica.quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    return ErrorCode.INVALID_REQUEST if remote_id < 0 else ErrorCode.NONE


def leader_only_error(replica: Replica, epoch: int) -> ErrorCode:
    """Checks requests that only the leader of an epoch may answer."""
    if epoch < replica.quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.quorum.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(replica.quorum.state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    if replica.shutdown_deadline_ms is not None:
        return ErrorCode.BROKER_NOT_AVAILABLE
    return ErrorCode.NONE


def leader_id_or_none(replica: Replica) -> int:
    leader_id = replica.quorum.leader_id
    return NO_NODE if leader_id is None else leader_id


def leader_endpoint(replica: Replica, received: RequestReceived) -> list[dict[str, Any]]:
    """The leader's address on the listener of a request, as the fields of a response's NodeEndpoint."""
    address = replica.quorum.state.leader_endpoints.get(received.listener)
    if address is None or replica.quorum.leader_id is None:
        return []
    return [{"node_id": replica.quorum.leader_id, "host": address.host, "port": address.port}]


def leader_endpoints(replica: Replica, leader_id: int, nodes: Sequence[_NodeEndpoint]) -> Endpoints:
    """The leader's addresses by a response, else by the voter set."""
    for node in nodes:
        if node.node_id == leader_id:
            return {replica.config.listener: Endpoint(node.host, node.port)}
    return replica.control.voters.endpoints(leader_id)


def request_endpoints(replica: Replica, leader_id: int, listeners: Sequence[_Listener]) -> Endpoints:
    """The leader's addresses by its own request, else by the voter set."""
    return listener_map(listeners) or replica.control.voters.endpoints(leader_id)


def listener_map(listeners: Sequence[_Listener]) -> Mapping[str, Endpoint]:
    return {listener.name: Endpoint(listener.host, listener.port) for listener in listeners}


def accepted(replica: Replica, response: _VoterResponse[A], source: Node, now: int) -> A | bool:
    """The answer of a Vote, BeginQuorumEpoch or EndQuorumEpoch that is still to be taken; else as
    `take_common_response`, which has taken it."""
    if response.error_code != ErrorCode.NONE:
        return unexpected(response.error_code, source)
    answer = only_partition(response.topics)
    if answer is None:
        return False
    handled = take_common_response(
        replica, answer.error_code, answer.leader_id, answer.leader_epoch, response.node_endpoints, source, now
    )
    if handled is not None:
        return handled
    return unexpected(answer.error_code, source) if answer.error_code != ErrorCode.NONE else answer


def take_common_response(
    replica: Replica,
    error: int,
    leader_id: int,
    epoch: int,
    nodes: Sequence[_NodeEndpoint],
    source: Node,
    now: int,
) -> bool | None:
    """Acts on the epoch, the leader and the errors that every response may have.

    None: the response is still to be taken by its own handler. True: done. False: done, and the node backs off.
    """
    quorum = replica.quorum
    if epoch < quorum.epoch or error == ErrorCode.UNKNOWN_LEADER_EPOCH:
        return True
    named = leader_id if leader_id >= 0 else None
    endpoints = leader_endpoints(replica, leader_id, nodes) if named is not None else {}
    is_stale = error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    if epoch > quorum.epoch or is_stale:
        before = quorum.state
        # Without any news, asking again at once would not help.
        return replica.follow(named, epoch, endpoints, now) and quorum.state is not before
    # A replica that remembers the leader but lost the log with its endpoints must be told them again.
    is_unattached = quorum.leader_id is None or isinstance(quorum.state, Unattached)
    if named is not None and is_unattached:
        if not endpoints or not replica.follow(named, epoch, endpoints, now):
            return False
        return None if error == ErrorCode.NONE else True
    if error == ErrorCode.INVALID_VOTER_KEY:
        logger.info("Node %d isn't the replica that the voter set names: its directory id differs", source.id)
        return True
    if error in (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.INVALID_REQUEST):
        return unexpected(error, source)
    return None


def unexpected(error: int, source: Node) -> bool:
    """False: the node backs off. Kafka stops the node for some of these; a peer's mistake is no reason for that."""
    if error != ErrorCode.BROKER_NOT_AVAILABLE:
        logger.error("Node %d (%s:%d) answered with error %s; retrying", *source, ErrorCode(error).name)
    return False
