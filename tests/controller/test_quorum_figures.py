"""The figures of a member of the quorum: windows of time, elections, and the names of its states."""

from itertools import pairwise
from math import isnan

import pytest

from cordwood.quorum.figures import QuorumFigures, Windowed, state_name
from cordwood.raft.identity import Endpoint, ReplicaKey
from cordwood.raft.states import Follower, Prospective, State, Unattached
from cordwood.raft.states.votes import Votes


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


ENDPOINTS = {"CONTROLLER": Endpoint("a", 9093)}


def follower(epoch: int, leader_id: int) -> Follower:
    return Follower(epoch, leader_id, ENDPOINTS, None, None, 0, 0)


def prospective(epoch: int) -> Prospective:
    return Prospective(epoch, 2, ENDPOINTS, None, None, Votes([ReplicaKey(1)], 1), 0)


def test_a_window_covers_the_last_minute() -> None:
    time = Time()
    values = Windowed(time.monotonic)
    assert isnan(values.average)
    assert isnan(values.maximum)
    values.add(10)
    time.now_s += 30
    values.add(20)
    assert (values.average, values.maximum, values.rate) == (15, 20, 1.0)
    time.now_s += 30
    assert (values.average, values.rate) == (20, 20 / 30)
    time.now_s += 31
    assert isnan(values.average)
    assert values.rate == 0


def test_an_election_takes_from_the_first_pre_vote_to_the_next_leader() -> None:
    time = Time()
    figures = QuorumFigures(time.monotonic)
    states: list[State] = [follower(1, 2), prospective(1), Unattached(2, None, None, None, None), follower(2, 3)]
    for before, after in pairwise(states):
        figures.stepped(before, after, time.now_s)
        time.now_s += 0.25
    assert figures.election_ms.average == 500


def test_pre_votes_that_lead_back_to_the_same_leader_are_not_counted_as_an_election() -> None:
    time = Time()
    figures = QuorumFigures(time.monotonic)
    figures.stepped(follower(1, 2), prospective(1), time.now_s)
    figures.stepped(prospective(1), follower(1, 2), time.now_s)
    assert isnan(figures.election_ms.average)


def test_a_node_without_a_vote_is_an_observer() -> None:
    assert state_name(follower(1, 2), is_voter=True) == "follower"
    assert state_name(follower(1, 2), is_voter=False) == "observer"
    assert state_name(prospective(1), is_voter=True) == "prospective"


@pytest.mark.parametrize(("voted_key", "name"), [(None, "unattached"), (ReplicaKey(2), "unattached-voted")])
def test_a_replica_that_has_voted_is_named_so(voted_key: ReplicaKey | None, name: str) -> None:
    assert state_name(Unattached(1, None, voted_key, None, None), is_voter=True) == name


def test_the_time_of_steps_is_not_idle_time() -> None:
    time = Time()
    figures = QuorumFigures(time.monotonic)
    time.now_s += 3
    figures.stepped(follower(1, 2), follower(1, 2), time.now_s)
    time.now_s += 1
    figures.stepped(follower(1, 2), follower(1, 2), time.now_s - 1)
    assert figures.idle_ratio == 0.75
