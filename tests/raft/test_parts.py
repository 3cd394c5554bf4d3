"""The parts of the machine: the log's epochs and snapshots, voters and their history, the quorum-state file."""

import pytest

from cordwood.raft.connections import Connections
from cordwood.raft.control_state import ControlState, LogHistory
from cordwood.raft.election_state import ElectionState
from cordwood.raft.exceptions import InconsistentQuorum, InvalidQuorumState
from cordwood.raft.identity import NO_DIRECTORY, Endpoint, Node, ReplicaKey
from cordwood.raft.log import Diverging, EpochStart, LogState, NeedsSnapshot, OffsetAndEpoch
from cordwood.raft.replica import voters_record
from cordwood.raft.states.votes import Votes
from cordwood.raft.voters import VoterSet
from cordwood.runtime.randomness import SeededRandom
from cordwood.wire.control import control_batch
from tests.raft.raft_memory_log import Content, MemoryLog
from tests.raft.raft_transcript import voter


@pytest.fixture
def log() -> LogState:
    """Epoch 1 from 0, epoch 3 from 10, epoch 4 from 20 to 25."""
    return LogState(0, 25, 25, [EpochStart(1, 0), EpochStart(3, 10), EpochStart(4, 20)])


# The log


@pytest.mark.parametrize(
    ("epoch", "end"), [(0, (0, 0)), (1, (10, 1)), (2, (10, 1)), (3, (20, 3)), (4, (25, 4)), (9, (25, 4))]
)
def test_the_end_offset_of_an_epoch_is_where_the_next_one_begins(
    log: LogState, epoch: int, end: tuple[int, int]
) -> None:
    assert log.end_offset_for_epoch(epoch) == end


@pytest.mark.parametrize(
    ("offset", "epoch", "problem"),
    [
        (25, 4, None),
        (22, 4, None),
        (15, 3, None),
        (21, 3, Diverging(OffsetAndEpoch(20, 3))),
        (15, 2, Diverging(OffsetAndEpoch(10, 1))),
        (30, 4, Diverging(OffsetAndEpoch(25, 4))),
        (5, 7, Diverging(OffsetAndEpoch(25, 4))),
        (0, 0, None),
    ],
)
def test_a_followers_end_diverges_where_the_leaders_log_has_another_epoch(
    log: LogState, offset: int, epoch: int, problem: Diverging | None
) -> None:
    assert log.validate(offset, epoch) == problem


def test_a_follower_below_the_start_of_the_log_needs_the_latest_snapshot(log: LogState) -> None:
    log.snapshots = {OffsetAndEpoch(10, 1): 100, OffsetAndEpoch(20, 3): 100}
    log.cleaned(20, [OffsetAndEpoch(10, 1)])
    assert log.epochs == [EpochStart(4, 20)]
    latest = NeedsSnapshot(OffsetAndEpoch(20, 3))
    assert log.validate(15, 3) == latest
    assert log.validate(20, 1) == latest
    assert log.validate(22, 2) == latest
    assert log.validate(20, 3) is None
    assert log.end_offset_for_epoch(3) == (20, 3)


@pytest.mark.parametrize(
    ("leader_end", "offset"), [((18, 3), 18), ((22, 3), 20), ((12, 2), 10), ((5, 1), 5), ((0, 0), 0), ((99, 0), 25)]
)
def test_a_follower_truncates_to_the_smaller_end_of_the_diverging_epoch(
    log: LogState, leader_end: tuple[int, int], offset: int
) -> None:
    assert log.truncation_offset(OffsetAndEpoch(*leader_end)) == offset


def test_truncation_forgets_epochs_and_flushes(log: LogState) -> None:
    log.truncated(10)
    assert log.epochs == [EpochStart(1, 0)]
    assert (log.end, log.flushed_offset) == (OffsetAndEpoch(10, 1), 10)


def test_logs_are_compared_by_epoch_first() -> None:
    assert OffsetAndEpoch(9, 1).is_behind(OffsetAndEpoch(3, 2))
    assert OffsetAndEpoch(3, 2).is_behind(OffsetAndEpoch(4, 2))
    assert not OffsetAndEpoch(3, 2).is_behind(OffsetAndEpoch(3, 2))


# Voters


def test_a_voter_set_survives_its_record() -> None:
    voters = VoterSet([voter(3), voter(1)])
    assert VoterSet.of_record(voters.to_record()) == voters
    assert voters.ids == [1, 3]


def test_a_voter_with_another_directory_is_not_a_voter() -> None:
    voters = VoterSet([voter(1), voter(2)])
    assert voters.is_voter(voter(1).key)
    assert not voters.is_voter(ReplicaKey(1, voter(2).key.directory_id))
    assert voters.without_voter(ReplicaKey(1, voter(2).key.directory_id)) is None
    assert voters.updated(voter(3)) is None


def test_static_voters_are_known_by_id_alone() -> None:
    voters = VoterSet.static("CONTROLLER", {1: Endpoint("host1", 9093)})
    assert voters.keys == [ReplicaKey(1, NO_DIRECTORY)]
    assert voters.is_only_voter(voter(1).key)
    assert not voters.has_all_directories()
    assert voters.updated_by_id(voter(1)) == VoterSet([voter(1)])


def test_voter_sets_overlap_if_they_differ_in_one_voter() -> None:
    three = VoterSet(voter(number) for number in (1, 2, 3))
    assert three.overlaps(three.with_voter(voter(4)))
    assert three.overlaps(VoterSet([voter(1), voter(2), voter(4)]))
    assert not three.overlaps(VoterSet([voter(1)]))


def test_a_voters_record_that_changes_two_voters_stops_the_replica() -> None:
    control = ControlState()
    _apply_voters(control, 0, [1, 2, 3])
    with pytest.raises(InconsistentQuorum, match="differ"):
        _apply_voters(control, 1, [1])


def test_truncation_brings_the_voters_before_it_back() -> None:
    control = ControlState(VoterSet([voter(9)]))
    _apply_voters(control, 4, [1, 2])
    _apply_voters(control, 8, [1, 2, 3])
    assert control.voters_at(7) == VoterSet([voter(1), voter(2)])
    control.truncate_new(8)
    assert control.voters.ids == [1, 2]
    control.truncate_new(4)
    assert (control.voters.ids, control.voters_offset) == ([9], None)


def test_a_snapshot_that_ends_before_a_change_of_voters_keeps_the_voters_before_it() -> None:
    control = ControlState()
    _apply_voters(control, 0, [1, 2, 3])
    _apply_voters(control, 4, [1, 2])
    control.snapshot_taken(4)
    assert control.former_voters is not None
    assert control.former_voters.ids == [1, 2, 3]
    control.truncate_new(4)
    assert control.voters.ids == [1, 2, 3]


def _apply_voters(control: ControlState, offset: int, ids: list[int]) -> None:
    record = voters_record(VoterSet(voter(number) for number in ids))
    control.apply_batch(control_batch([record], base_offset=offset, timestamp=0, leader_epoch=1))


def test_old_history_is_forgotten_up_to_the_value_that_still_holds() -> None:
    history: LogHistory[str] = LogHistory()
    for offset, value in ((-1, "a"), (5, "b"), (9, "c")):
        history.add(offset, value)
    history.truncate_old(7)
    assert (history.at(4), history.at(5), history.at(100)) == (None, "b", "c")


def test_a_snapshot_below_the_start_of_the_log_does_not_count() -> None:
    """As left by a crash between the move of the log's start and the deletion of older snapshots."""
    kept = {OffsetAndEpoch(0, 0): b"bootstrap", OffsetAndEpoch(56, 2): b"newest"}
    opened = LogState.of(MemoryLog(Content(56, (), kept)))
    assert opened.earliest_snapshot == OffsetAndEpoch(56, 2)
    assert opened.validate(56, 2) is None


# Elections


def test_votes_of_others_than_the_voters_are_not_counted() -> None:
    votes = Votes([voter(number).key for number in (1, 2, 3)], 1)
    outcomes = []
    for voter_id, granted in ((9, True), (2, False), (3, True)):
        votes.record(voter_id, granted)
        outcomes.append((votes.is_won, votes.is_lost))
    assert outcomes == [(False, False), (False, False), (True, False)]
    assert votes.granting == [1, 3]


def test_an_election_is_lost_once_a_majority_is_out_of_reach() -> None:
    votes = Votes([voter(number).key for number in (1, 2, 3, 4)], 1)
    outcomes = []
    for voter_id in (2, 3):
        votes.record(voter_id, False)
        outcomes.append(votes.is_lost)
    assert outcomes == [False, True]


# The quorum-state file


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize(
    "election",
    [ElectionState(), ElectionState(7, 3), ElectionState(7, None, ReplicaKey(2)), ElectionState(7, 3, ReplicaKey(2))],
)
def test_the_quorum_state_file_round_trips(election: ElectionState, kraft_version: int) -> None:
    assert ElectionState.decode("quorum-state", election.encode(kraft_version, [1, 2, 3])) == election


def test_version_0_names_the_voters_and_version_1_the_directory_that_was_voted_for() -> None:
    election = ElectionState(7, None, voter(2).key)
    assert election.encode(0, [1, 2]) == (
        b'{"clusterId":"","leaderId":-1,"leaderEpoch":7,"votedId":2,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":1},{"voterId":2}],"data_version":0}'
    )
    assert election.encode(1, [1, 2]) == (
        b'{"leaderId":-1,"leaderEpoch":7,"votedId":2,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAg","data_version":1}'
    )
    assert ElectionState.decode("", election.encode(0, [])).voted_for(voter(2).key)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"leaderId":1}', b'{"leaderId":1,"leaderEpoch":1,"data_version":2}'])
def test_a_damaged_quorum_state_file_is_named(data: bytes) -> None:
    with pytest.raises(InvalidQuorumState, match="meta/quorum-state"):
        ElectionState.decode("meta/quorum-state", data)


# Connections


def test_a_node_gets_one_request_at_a_time_and_a_back_off_after_a_failure() -> None:
    connections = Connections([], 20, 2000, SeededRandom(1))
    node = Node(2, "host2", 9093)
    sent = connections.sent(node, 100)
    assert not connections.is_ready(2, 2099)
    connections.answered(sent, False, 150)
    assert connections.is_backing_off(2, 169)
    assert connections.source(sent) is None
    assert connections.is_ready(2, 170)
    late = connections.sent(node, 200)
    assert connections.has_timed_out(2, 2200)
    assert connections.is_ready(2, 2200)
    assert connections.source(late) is None
