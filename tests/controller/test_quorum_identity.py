"""A node that has the id of a voter, and isn't that voter."""

from cordwood.quorum.configuration import doubtful_identity
from cordwood.raft.config import QuorumConfig
from cordwood.raft.identity import Endpoint, Endpoints, ReplicaKey
from cordwood.raft.replica import ReplicaConfig
from cordwood.raft.voters import VoterNode, VoterSet
from cordwood.wire.primitives import uuid_text

LISTENER = "CONTROLLER"
THEIRS, OURS = bytes(15) + b"\x01", bytes(15) + b"\x02"
VOTERS = VoterSet([VoterNode(ReplicaKey(1, THEIRS), {LISTENER: Endpoint("a", 9093)})])
HERE = {LISTENER: Endpoint("b", 9093)}


def doubt(node_id: int, directory_id: bytes, endpoints: Endpoints, quorum: QuorumConfig | None = None) -> str | None:
    local = VoterNode(ReplicaKey(node_id, directory_id), endpoints)
    return doubtful_identity(ReplicaConfig("c", local, LISTENER, [], quorum or QuorumConfig()), VOTERS)


def test_a_controller_with_the_id_of_a_voter_is_told_how_to_get_its_own_or_replace_the_voter() -> None:
    told = doubt(1, OURS, HERE)
    assert told is not None
    assert f"directory id {uuid_text(THEIRS)} at a:9093" in told
    assert "give this one a unique node.id" in told
    assert f"cordwood quorum remove 1, then cordwood quorum add 1@b:9093:{uuid_text(OURS)}" in told


def test_a_broker_with_the_id_of_a_voter_is_not_advised_to_become_one() -> None:
    told = doubt(1, OURS, {})
    assert told is not None
    assert told.endswith("cordwood quorum remove 1")


def test_voters_observers_and_nodes_that_join_by_themselves_raise_no_doubt() -> None:
    assert doubt(1, THEIRS, HERE) is None
    assert doubt(2, OURS, HERE) is None
    assert doubt(1, OURS, HERE, QuorumConfig(auto_join_enable=True)) is None
