"""Derives the configuration of the quorum member from the node's."""

from __future__ import annotations

from cordwood.config.broker import BrokerConfig
from cordwood.metadata.endpoints import Addresses
from cordwood.metadata.features import KRAFT_VERSION, SUPPORTED
from cordwood.metadata.storage.disk_log import DiskLog
from cordwood.raft.config import QuorumConfig
from cordwood.raft.control_state import ControlState
from cordwood.raft.identity import NO_DIRECTORY, Endpoint, Node, ReplicaKey, VersionRange
from cordwood.raft.replica import ReplicaConfig
from cordwood.raft.voters import VoterNode, VoterSet
from cordwood.wire.primitives import Uuid, uuid_text

# Bootstrap servers have no ids that are known.
_FIRST_BOOTSTRAP_ID = -2


def configured_voters(config: BrokerConfig, log: DiskLog, *, accept_loss: bool = False) -> VoterSet:
    """The voters of `controller.quorum.voters`, which count as long as the log names none.

    A standalone node can take over the directory of a Kafka that named its voters in server.properties only, which is
    not available then: a log that has records and names no voters is this node's own. So is an empty one, if the loss
    of the log with the snapshot that named the voters was accepted."""
    quorum = config.quorum
    if not quorum.is_static and config.stands_alone and (log.end_offset > 0 or accept_loss):
        return VoterSet([VoterNode(ReplicaKey(config.node_id), {})])
    addresses = {node_id: Endpoint(where.host, where.port) for node_id, where in quorum.static_voters.items()}
    return VoterSet.static(quorum.listener, addresses)


def replica_config(
    config: BrokerConfig,
    cluster_id: str,
    directory_id: Uuid,
    addresses: Addresses,
    log: DiskLog,
    voters: VoterSet,
) -> ReplicaConfig:
    """`addresses` are those of this node's listeners, `directory_id` that of its metadata directory."""
    quorum, levels = config.quorum, SUPPORTED[KRAFT_VERSION]
    endpoints = {
        end.listener: Endpoint(addresses[end.listener].host, addresses[end.listener].port)
        for end in config.listeners.advertised_controllers
        if end.listener in addresses
    }
    own = endpoints.get(quorum.listener)
    contacts = [Endpoint(contact.host, contact.port) for contact in quorum.contacts]
    return ReplicaConfig(
        cluster_id,
        VoterNode(
            _own_key(ReplicaKey(config.node_id, directory_id), log, voters),
            endpoints,
            VersionRange(levels.low, levels.high),
        ),
        quorum.listener,
        # A node does not ask itself for the leader.
        [Node(_FIRST_BOOTSTRAP_ID - number, *contact) for number, contact in enumerate(contacts) if contact != own],
        QuorumConfig.of(config),
        can_become_voter="controller" in config.items("process.roles"),
    )


def _own_key(key: ReplicaKey, log: DiskLog, voters: VoterSet) -> ReplicaKey:
    """The log of a quorum of one is its voter's, also where meta.properties was lost and the directory has a new id."""
    known = ControlState.load(log, voters).voters.keys
    if len(known) == 1 and known[0].id == key.id and known[0].directory_id != NO_DIRECTORY:
        return known[0]
    return key


def doubtful_identity(config: ReplicaConfig, voters: VoterSet) -> str | None:
    """A message for the operator where this node has the id of a voter that it isn't: it takes no part in elections."""
    key, voter = config.local.key, voters.get(config.local.key.id)
    if voter is None or voters.is_voter(key) or config.quorum.auto_join_enable:
        return None
    where = voter.endpoints.get(config.listener)
    told = "" if where is None else f" at {where.host}:{where.port}"
    doubt = (
        f"This node has no vote: the voter {key.id} is the replica with directory id "
        f"{uuid_text(voter.key.directory_id)}{told}, and this node's is {uuid_text(key.directory_id)}. If that is "
        "another node, give this one a unique node.id and format empty log.dirs for it."
    )
    own = config.local.endpoints.get(config.listener)
    if own is None:
        return f"{doubt} If this node was that controller once, remove the voter: cordwood quorum remove {key.id}"
    return (
        f"{doubt} If this node has lost its disk, replace the voter: cordwood quorum remove {key.id}, then "
        f"cordwood quorum add {key.id}@{own.host}:{own.port}:{uuid_text(key.directory_id)}"
    )
