"""The rules of the Raft paper ("In Search of an Understandable Consensus Algorithm", extended version) and of the KIPs.

Each test names its rule; the transcripts show the same in longer stories.
"""

import pytest

from cordwood.raft.api.common import TOPIC
from cordwood.raft.effects import (
    Append,
    Flush,
    LeadershipChanged,
    Respond,
    Send,
    ShutdownCompleted,
)
from cordwood.raft.events import BeginShutdown, Flushed, Propose, ResponseReceived, Tick
from cordwood.raft.exceptions import InconsistentQuorum, WrongIdentity
from cordwood.raft.states import Follower, Leader, Prospective, Resigned, Unattached
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from cordwood.wire.messages.vote import NodeEndpoint, ResponsePartitionData, ResponseTopicData, VoteResponse
from tests.raft.raft_transcript import START_MS, Stage, voter


def played(*lines: str) -> Stage:
    stage = Stage()
    for line in lines:
        stage.play(line)
    return stage


def leader_of_three(*lines: str) -> Stage:
    """Node 1, which has just been elected by 2."""
    return played("start id=1 voters=1,2,3", "tick 1000", "answer 2 granted", "answer 2 granted", *lines)


def follower_of_2(*lines: str) -> Stage:
    return played("start id=1 voters=1,2,3", "begin from=2 epoch=1", *lines)


# 5.1, 5.2: epochs and elections


def test_5_1_a_higher_epoch_turns_a_leader_into_a_follower() -> None:
    stage = leader_of_three("begin from=3 epoch=2")
    assert isinstance(stage.machine.state, Follower)
    assert stage.machine.epoch == 2


def test_5_1_a_request_of_an_old_epoch_is_refused_and_changes_nothing() -> None:
    stage = follower_of_2("begin from=3 epoch=4")
    answer = stage.play("begin from=2 epoch=1")
    assert answer[0] == "respond 3 BeginQuorumEpoch FENCED_LEADER_EPOCH leader=3 epoch=4"
    assert stage.machine.leader_id == 3


def test_5_2_a_candidate_votes_for_itself_durably_before_it_asks_others() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 1000")
    effects = stage.play("answer 2 granted")
    assert effects[0] == "persist epoch=1 leader=- voted=1"
    assert [line.split()[:2] for line in effects[2:4]] == [["send", "2"], ["send", "3"]]


def test_5_2_a_vote_is_durable_before_it_is_answered() -> None:
    stage = played("start id=1 voters=1,2,3")
    effects = stage.play("vote from=2 epoch=1")
    assert effects[:2] == ["persist epoch=1 leader=- voted=2", "respond 1 Vote granted leader=- epoch=1"]


def test_5_2_a_replica_votes_once_in_an_epoch() -> None:
    stage = played("start id=1 voters=1,2,3", "vote from=2 epoch=1")
    assert "not granted" in stage.play("vote from=3 epoch=1")[0]


def test_5_2_a_majority_of_the_votes_makes_a_leader() -> None:
    stage = played("start id=1 voters=1,2,3,4,5", "tick 1000", "answer 2 granted", "answer 3 granted")
    assert stage.machine.state.name == "Candidate"
    stage.play("answer 4 granted")
    assert stage.machine.state.name == "Candidate"
    stage.play("answer 5 granted")
    assert stage.machine.state.name == "Leader"


def test_5_2_a_candidate_follows_a_leader_that_it_discovers() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 1000", "answer 2 granted", "begin from=3 epoch=1")
    assert isinstance(stage.machine.state, Follower)
    assert stage.machine.state.voted_key == voter(1).key


def test_5_2_two_leaders_in_one_epoch_stop_the_replica() -> None:
    stage = follower_of_2()
    with pytest.raises(InconsistentQuorum, match="node 3 was reported to lead epoch 1, but node 2 leads it"):
        stage.play("begin from=3 epoch=1")


@pytest.mark.parametrize("pre", ["", "pre "])
@pytest.mark.parametrize(
    "before", [["start id=1 voters=1,2,3 log=1 election=2:1:"], ["start id=1 voters=1,2,3 log=1 election=2::1"]]
)
def test_5_2_candidates_and_former_leaders_give_no_vote_in_their_epoch(before: list[str], pre: str) -> None:
    stage = played(*before)
    assert ("not granted" in stage.play(f"vote {pre}from=3 epoch=2 end=9/1")[0]) == (not pre)


def test_5_2_the_first_election_of_a_new_cluster_does_not_wait_for_an_election_timeout() -> None:
    stage = played("start id=1 voters=1,2,3")
    assert stage.machine.deadline_ms is not None
    assert stage.machine.deadline_ms <= START_MS + 150
    stage.play("tick 150")
    assert isinstance(stage.machine.state, Prospective)


@pytest.mark.parametrize("before", ["log=1", "election=1::", "log=1 election=1::2", "snapshot=5/1"])
def test_5_2_a_voter_that_has_seen_an_epoch_waits_for_an_election_timeout(before: str) -> None:
    stage = played(f"start id=1 voters=1,2,3 {before}")
    names = [stage.play(f"tick {ms}") and stage.machine.state.name for ms in (999, 1)]
    assert names == ["Unattached", "Prospective"]


def test_5_2_a_voter_lets_the_one_go_ahead_that_has_its_pre_vote() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 49", "vote from=2 epoch=0 pre")
    names = [stage.play(f"tick {ms}") and stage.machine.state.name for ms in (99, 1)]
    assert names == ["Unattached", "Prospective"]


# 5.3: replication


def test_5_3_a_follower_truncates_entries_that_differ_from_its_leaders() -> None:
    stage = played("start id=1 voters=1,2,3 log=1*3,2*4", "begin from=2 epoch=3", "answer 2 leader=2 diverging=3/1")
    assert stage.machine.log.end == (3, 1)


def test_5_3_a_leader_never_changes_its_own_log() -> None:
    stage = leader_of_three("flushed", "fetch from=2 at=9/1", "fetch from=3 at=2/0")
    assert stage.machine.log.end == (3, 1)


def test_5_3_committed_records_are_never_truncated() -> None:
    stage = follower_of_2("answer 2 leader=2 records=0..5/1 hw=5", "flushed", "begin from=3 epoch=2")
    with pytest.raises(InconsistentQuorum, match="below the high watermark 5"):
        stage.play("answer 3 leader=3 diverging=2/1")


# 5.4: safety


@pytest.mark.parametrize(
    ("end", "granted"), [("3/2", True), ("1/3", True), ("4/2", True), ("2/2", False), ("9/1", False)]
)
def test_5_4_1_a_vote_needs_a_log_that_is_at_least_as_up_to_date(end: str, granted: bool) -> None:
    stage = played("start id=1 voters=1,2,3 log=1*2,2 election=3::")
    assert ("not granted" not in stage.play(f"vote from=2 epoch=4 end={end}")[1]) == granted


def test_5_4_2_a_leader_commits_no_record_of_an_earlier_epoch_by_counting() -> None:
    stage = played("start id=1 voters=1,2,3 log=1*4 election=1::", "tick 1000", "answer 2 granted", "answer 2 granted")
    stage.play("flushed")
    stage.play("fetch from=2 at=4/1")
    stage.play("fetch from=3 at=4/1")
    assert stage.machine.high_watermark is None
    stage.play("fetch from=3 at=7/2")
    assert stage.machine.high_watermark == 7


def test_5_4_a_leader_begins_its_epoch_with_its_own_record() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 1000", "answer 2 granted")
    assert "append 0..3/1 LeaderChange KRaftVersion Voters" in stage.play("answer 2 granted")


# 5.5, 5.6: crashes and timing


def test_5_5_a_request_that_comes_twice_is_answered_twice_alike() -> None:
    stage = leader_of_three("flushed")
    first, second = stage.play("fetch from=3 at=0/0"), stage.play("fetch from=3 at=0/0")
    assert first[0].replace("respond 1", "") == second[0].replace("respond 2", "")


def test_5_6_election_timeouts_lie_between_one_and_two_times_the_configured_one() -> None:
    deadlines = set()
    for jitter in (0, 500, 999):
        stage = played("start id=1 voters=1,2,3")
        stage.machine._replica.quorum._random.below = lambda bound, jitter=jitter: min(jitter, bound - 1)  # type: ignore[method-assign,misc]
        stage.play("vote from=2 epoch=1")
        assert isinstance(stage.machine.state, Unattached)
        deadlines.add(stage.machine.state.election_deadline_ms)
    assert deadlines == {START_MS + 1000, START_MS + 1500, START_MS + 1999}


# 6: changes of the voters


def test_6_the_latest_voters_count_before_they_are_committed() -> None:
    stage = leader_of_three("flushed", "fetch from=2 at=3/1 wait=0", "remove-voter 3")
    assert isinstance(stage.machine.state, Leader)
    assert list(stage.machine.state.voters) == [1, 2]


def test_6_a_leader_that_is_removed_does_not_count_itself() -> None:
    stage = leader_of_three("flushed", "fetch from=2 at=3/1 wait=0", "remove-voter 1", "flushed", "fetch from=2 at=4/1")
    assert stage.machine.high_watermark == 3
    stage.play("fetch from=3 at=4/1")
    assert isinstance(stage.machine.state, Resigned)


def test_6_a_removed_leader_is_eligible_until_the_removal_is_committed() -> None:
    """Raft dissertation, 4.2.2: it may be the only one that has the record of the removal."""
    removed = ("remove-voter 1", "flushed", "restart")
    stage = played("start id=1 voters=1,2", "tick 1000", "answer 2 granted", "answer 2 granted", "flushed")
    for line in ("fetch from=2 at=3/1 wait=0", *removed, "tick", "tick"):
        stage.play(line)
    assert isinstance(stage.machine.state, Prospective)
    assert stage.machine.state.votes.granting == []
    stage.play("begin from=2 epoch=5")
    stage.play("answer 2 leader=2 hw=4")
    assert stage.machine.high_watermark == 4
    stage.play("tick 60000")
    assert stage.machine.state.name == "Follower"


def test_6_a_leader_without_its_own_vote_resigns_without_the_last_voter() -> None:
    stage = leader_of_three("flushed", "fetch from=2 at=3/1 wait=0", "remove-voter 3", "flushed")
    for line in ("fetch from=2 at=4/1 wait=0", "remove-voter 1", "flushed", "tick 3000"):
        stage.play(line)
    assert isinstance(stage.machine.state, Resigned)


# 7: snapshots


def test_7_a_snapshot_keeps_the_epoch_of_its_last_record() -> None:
    stage = follower_of_2("answer 2 leader=2 snapshot=9/1", "answer 2 leader=2 snapshot=9/1 voters=1,2,3 position=0")
    assert stage.machine.log.end == (9, 1)
    assert stage.machine.high_watermark == 9


# KIP-595


def test_kip_595_followers_fetch_from_the_end_of_their_flushed_log() -> None:
    stage = follower_of_2("answer 2 leader=2 records=0..3/1")
    assert not any(isinstance(effect, Send) for effect in stage.step(Tick()))
    effects = stage.step(Flushed(3))
    assert [type(effect) for effect in effects] == [Send]


def test_kip_595_the_leader_counts_its_own_log_only_once_it_is_flushed() -> None:
    stage = leader_of_three("fetch from=2 at=3/1 wait=0")
    assert stage.machine.high_watermark is None
    stage.play("flushed")
    assert stage.machine.high_watermark == 3


def test_kip_595_appends_continue_while_an_fsync_is_in_progress_and_share_the_next_one() -> None:
    stage = played("start id=1 voters=1", "flushed")
    flushes = [
        effect
        for number in range(5)
        for effect in stage.step(Propose(number, 1, [b"value"]))
        if isinstance(effect, Flush)
    ]
    assert flushes == [Flush(4)]
    assert [effect for effect in stage.step(Flushed(4)) if isinstance(effect, Flush)] == [Flush(8)]


def test_kip_595_an_fsync_covers_appends_before_it_began() -> None:
    stage = played("start id=1 voters=1", "flushed", "propose a", "propose b", "propose c", "flushed 5")
    assert (stage.machine.high_watermark, stage.machine.log.end_offset) == (5, 6)


def test_kip_595_only_the_leader_describes_the_quorum() -> None:
    assert "NOT_LEADER_OR_FOLLOWER" in follower_of_2().play("describe")[0]


def test_kip_595_the_state_machine_leads_only_after_a_record_of_the_epoch_is_committed() -> None:
    stage = leader_of_three()
    told = [effect for effect in stage.step(Flushed(3)) if isinstance(effect, LeadershipChanged)]
    assert told == []
    assert "leader of epoch 1 is 1" in stage.play("fetch from=2 at=3/1")


def test_kip_595_a_leader_without_a_majority_resigns_after_one_and_a_half_fetch_timeouts() -> None:
    stage = leader_of_three("flushed", "tick 2999")
    assert stage.machine.state.name == "Leader"
    stage.play("tick 1")
    assert stage.machine.state.name == "Resigned"


def test_kip_595_a_leader_that_stops_names_its_successors_by_their_end_offset() -> None:
    stage = leader_of_three("flushed", "fetch from=2 at=0/0", "fetch from=3 at=3/1 wait=0")
    sent = [effect for effect in stage.step(BeginShutdown(1000)) if isinstance(effect, Send)]
    assert len(sent) == 2
    request = sent[0].request
    assert isinstance(request, EndQuorumEpochRequest)
    keys = request.topics[0].partitions[0].preferred_candidates
    assert [key.candidate_id for key in keys] == [3, 2]


def test_kip_595_a_single_voter_stops_at_once() -> None:
    stage = played("start id=1 voters=1", "flushed")
    assert stage.step(BeginShutdown(1000)) == [ShutdownCompleted(True)]


def test_kip_595_a_restarted_leader_resigns_in_its_epoch() -> None:
    stage = leader_of_three("flushed", "restart")
    assert isinstance(stage.machine.state, Resigned)
    assert stage.machine.epoch == 1


# KIP-996


def test_kip_996_a_partitioned_voter_does_not_raise_the_epoch() -> None:
    stage = follower_of_2("answer 2 leader=2")
    for _ in range(10):
        stage.play("tick 3000")
    assert stage.machine.epoch == 1


def test_kip_996_a_pre_vote_is_not_persisted() -> None:
    stage = follower_of_2()
    assert not any(line.startswith("persist") for line in stage.play("vote pre from=3 epoch=1"))


def test_kip_996_a_follower_with_a_working_leader_denies_pre_votes() -> None:
    stage = follower_of_2()
    assert " granted" in stage.play("vote pre from=3 epoch=1")[0].replace("not granted", "")
    stage.play("answer 2 leader=2")
    assert "not granted" in stage.play("vote pre from=3 epoch=1")[0]


def test_kip_996_pre_votes_of_a_higher_epoch_are_processed() -> None:
    stage = follower_of_2("answer 2 leader=2", "vote pre from=3 epoch=5")
    assert isinstance(stage.machine.state, Unattached)
    assert stage.machine.epoch == 5


def test_kip_996_a_voter_that_has_lost_its_disk_is_not_elected() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 50", "answer 2")
    asking = stage.machine.state.name
    stage.play("answer 3")
    assert (asking, stage.machine.state.name, stage.machine.epoch) == ("Prospective", "Unattached", 0)


def test_kip_996_prospective_keeps_the_vote_of_its_epoch() -> None:
    stage = played("start id=1 voters=1,2,3", "vote from=2 epoch=1", "tick 1000")
    assert isinstance(stage.machine.state, Prospective)
    assert stage.machine.state.voted_key == voter(2).key
    assert "not granted" in stage.play("vote from=3 epoch=1")[0]


# KIP-853


def test_kip_853_a_vote_for_a_node_is_a_vote_for_its_directory() -> None:
    stage = played("start id=1 voters=1,2,3", "vote from=2 epoch=1")
    assert stage.quorum_state is not None
    assert b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAg"' in stage.quorum_state


def test_kip_853_a_request_for_another_directory_is_refused() -> None:
    stage = played("start id=1 voters=1,2,3")
    assert "INVALID_VOTER_KEY" in stage.play("begin from=2 epoch=1 directory=7")[1]


def test_kip_853_the_second_change_waits_for_the_first() -> None:
    stage = leader_of_three("flushed", "fetch from=2 at=3/1 wait=0", "remove-voter 3")
    assert "REQUEST_TIMED_OUT" in stage.play("remove-voter 2")[0]


def test_kip_853_a_new_voter_must_catch_up_first() -> None:
    stage = leader_of_three("flushed", "fetch from=2 at=3/1 wait=0", "fetch from=4 at=1/1 wait=0", "add-voter 4")
    assert "lags" in stage.play("answer 4")[0]


def test_kip_853_observers_do_not_count() -> None:
    stage = leader_of_three("flushed", "fetch from=4 at=3/1 wait=0", "fetch from=5 at=3/1 wait=0")
    assert stage.machine.high_watermark is None


def test_kip_853_voters_that_formatting_named_are_written_once() -> None:
    stage = played("start id=1 voters=1", "flushed")
    appends = [effect for effect in _restarted(stage) if isinstance(effect, Append)]
    assert [append.end_offset - append.base_offset for append in appends] == [1]


def _restarted(stage: Stage) -> list[object]:
    return list(stage.restart(stage.settings))


def test_kip_853_a_voter_that_updates_itself_reaches_its_leader() -> None:
    stage = played("start id=1 voters=1,2 static", "tick 1000", "answer 2 granted", "answer 2 granted", "flushed")
    stage.play("fetch from=2 at=1/1 wait=0")
    stage.play("tick 2000")
    stage.play("update-voter 2")
    stage.play("tick 2999")
    assert isinstance(stage.machine.state, Leader)


# KIP-630, KIP-1166


def test_kip_630_an_empty_follower_gets_a_snapshot_even_if_the_log_goes_back_to_the_start() -> None:
    stage = played("start id=1 voters=1", "flushed", "snapshot 3/1")
    assert "snapshot=3/1" in stage.play("fetch from=2 at=0/0")[0]
    assert stage.machine.log.start_offset == 0


def test_kip_630_voters_before_a_snapshot_are_forgotten() -> None:
    stage = leader_of_three("flushed", "fetch from=2 at=3/1 wait=0", "remove-voter 3", "flushed", "fetch from=2 at=4/1")
    assert stage.machine.control.voters_at(2) is not None
    stage.play("snapshot 4/1")
    assert stage.machine.control.voters_at(2) is None
    assert stage.machine.control.voters_at(3) is not None


def test_kip_630_the_bootstrap_snapshot_is_not_replicated() -> None:
    stage = leader_of_three("flushed")
    assert "records=0.." in stage.play("fetch from=2 at=0/0")[0]
    assert "SNAPSHOT_NOT_FOUND" in stage.play("fetch-snapshot from=2 snapshot=0/0")[0]


def test_kip_1166_a_waiting_fetch_is_answered_when_the_high_watermark_moves() -> None:
    stage = leader_of_three("fetch from=2 at=3/1 hw=-1")
    effects = stage.step(Flushed(3))
    assert any(isinstance(effect, Respond) and effect.request_id == 1 for effect in effects)


def test_nothing_is_sent_before_its_prerequisites_are_persisted() -> None:
    """The contract of effects.py: an epoch is on disk before any message that names it."""
    stage = played("start id=1 voters=1,2,3", "tick 1000")
    for line in ("answer 2 granted", "answer 2 granted", "vote from=3 epoch=5 end=9/4", "begin from=2 epoch=6"):
        kinds = [words.split()[0] for words in stage.play(line)]
        first_message = min(kinds.index(kind) for kind in ("send", "respond") if kind in kinds)
        assert kinds.index("persist") < first_message


# A leader that is lost


def test_a_follower_whose_leader_has_ended_its_epoch_grants_pre_votes() -> None:
    stage = follower_of_2("answer 2 leader=2")
    assert "not granted" in stage.play("vote from=3 epoch=1 pre")[0]
    stage.play("end from=2 epoch=1 successors=3,1")
    assert "Vote granted" in stage.play("vote from=3 epoch=1 pre")[0]


def test_a_voter_that_has_lost_the_leader_in_the_meantime_is_asked_again() -> None:
    """It denied the pre-vote while it had a leader, and its log is too short to be elected itself."""
    stage = played("start id=1 voters=1,2,3 log=1*3", "begin from=2 epoch=1", "answer 2 leader=2")
    stage.play("fail 2 error=BROKER_NOT_AVAILABLE")
    stage.play("answer 3")
    assert isinstance(stage.machine.state, Prospective)
    assert not any(line.startswith("send 3") for line in stage.play("tick 0"))
    effects = stage.play("vote from=3 epoch=1 end=1/1 pre")
    assert "not granted" in effects[0]
    assert any(line.startswith("send 3 Vote") for line in effects)


def test_an_election_that_cannot_be_won_without_the_leader_is_repeated_soon() -> None:
    lost = "fail 2 error=BROKER_NOT_AVAILABLE"
    stage = played("start id=1 voters=1,2,3", "begin from=2 epoch=1", lost, lost, "answer 3")
    assert isinstance(stage.machine.state, Prospective)
    assert stage.machine.state.election_deadline_ms == stage.now + 50


# A node with another node's identity


def refused_by(stage: Stage, node_id: int) -> None:
    """Node `node_id` is asked for a pre-vote, and is of another cluster."""
    response = VoteResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
    stage.step(ResponseReceived(stage.sent[node_id].correlation_id, response))


def test_a_voter_whose_cluster_id_a_majority_refuses_stops() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 1000")
    refused_by(stage, 2)
    with pytest.raises(WrongIdentity, match=r"cluster\.id is cluster, and the controllers at host2:9093, host3:9093"):
        refused_by(stage, 3)


def test_a_voter_outlives_one_controller_of_another_cluster() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 1000")
    refused_by(stage, 2)
    # It isn't asked again at once, and the election continues without it.
    assert not any(line.startswith("send 2") for line in stage.play("tick 20"))
    stage.play("answer 3 granted")
    stage.play("answer 3 granted")
    assert isinstance(stage.machine.state, Leader)


def said_to_lead(stage: Stage, host: str) -> None:
    """A follower of epoch 4 takes this node for its leader."""
    partition = ResponsePartitionData(error_code=ErrorCode.FENCED_LEADER_EPOCH, leader_id=1, leader_epoch=4)
    response = VoteResponse(
        topics=[ResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        node_endpoints=[NodeEndpoint(node_id=1, host=host, port=9093)],
    )
    stage.play("tick 20")
    stage.step(ResponseReceived(stage.sent[2].correlation_id, response))


def test_a_node_whose_id_leads_elsewhere_stops_when_no_dead_leader_would_be_left() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 1000")
    said_to_lead(stage, "elsewhere")
    stage.now += 5_900
    said_to_lead(stage, "elsewhere")
    stage.now += 100
    with pytest.raises(WrongIdentity, match=r"node\.id 1 is in use: the controller at elsewhere:9093"):
        said_to_lead(stage, "elsewhere")


def test_a_node_that_lost_its_disk_waits_until_no_other_considers_it_the_leader() -> None:
    stage = played("start id=1 voters=1,2,3", "tick 1000")
    for _ in range(3):
        said_to_lead(stage, "host1")
        stage.now += 60_000
    assert stage.machine.epoch == 0
