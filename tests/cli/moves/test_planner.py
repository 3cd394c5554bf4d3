"""Plans of moves: as few as possible, racks apart, brokers even."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.cli.moves.planner import Impossible, Move, Wish, plan_moves
from cordwood.cli.moves.throttles import parse_rate
from cordwood.client.cluster import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]


def topic(name: str, *replicas: Sequence[int]) -> Assignment:
    return {TopicPartition(name, index): tuple(brokers) for index, brokers in enumerate(replicas)}


def racks(*ids: int, of: Mapping[int, str] | None = None) -> dict[int, str | None]:
    return {broker: (of or {}).get(broker) for broker in ids}


def after(assignment: Assignment, moves: Sequence[Move]) -> Assignment:
    return assignment | {move.partition: move.after for move in moves}


def held(assignment: Assignment) -> Counter[int]:
    return Counter(broker for replicas in assignment.values() for broker in replicas)


def test_an_even_cluster_is_left_alone() -> None:
    even = topic("t", (1, 2), (2, 3), (3, 1))
    assert plan_moves(even, Wish(racks(1, 2, 3), balance=True)) == []


def test_a_new_broker_gets_its_share_and_nothing_else_moves() -> None:
    before = topic("t", *[(1, 2), (2, 3), (3, 1)] * 4)
    moves = plan_moves(before, Wish(racks(1, 2, 3, 4), balance=True))
    assert held(after(before, moves)) == {1: 6, 2: 6, 3: 6, 4: 6}
    assert sum(len(move.added) for move in moves) == 6
    assert {broker for move in moves for broker in move.added} == {4}


def test_a_drained_broker_is_emptied_and_other_replicas_stay() -> None:
    before = topic("t", (1, 2), (2, 3), (3, 1), (1, 2))
    moves = plan_moves(before, Wish(racks(1, 2)))
    assert [move.partition.partition for move in moves] == [1, 2]
    assert held(after(before, moves)) == {1: 4, 2: 4}


def test_a_drained_replica_goes_into_the_rack_that_it_leaves() -> None:
    where = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}
    before = topic("t", (1, 3, 5), (2, 4, 6))
    moves = plan_moves(before, Wish(racks(2, 3, 4, 5, 6, of=where)))
    assert [(move.before, set(move.after)) for move in moves] == [((1, 3, 5), {2, 3, 5})]


def test_replicas_that_share_a_rack_are_spread_before_numbers_count() -> None:
    where = {1: "a", 2: "a", 3: "b"}
    before = topic("t", (1, 2))
    (move,) = plan_moves(before, Wish(racks(1, 2, 3, of=where), balance=True))
    assert 3 in move.after


def test_brokers_stay_uneven_where_racks_forbid_more() -> None:
    where = {1: "a", 2: "b", 3: "b"}
    before = topic("t", *[(1, 2)] * 4)
    moves = plan_moves(before, Wish(racks(1, 2, 3, of=where), balance=True))
    assert held(after(before, moves)) == {1: 4, 2: 2, 3: 2}


def test_changing_the_replication_factor_moves_no_existing_replica() -> None:
    before = topic("t", (1,), (2,), (3,))
    grown = after(before, plan_moves(before, Wish(racks(1, 2, 3), replication_factor=2)))
    assert all(set(before[partition]) < set(replicas) for partition, replicas in grown.items())
    assert held(grown) == {1: 2, 2: 2, 3: 2}
    moves = plan_moves(grown, Wish(racks(1, 2, 3), replication_factor=1))
    assert all(not move.added and move.after == move.before[:1] for move in moves)
    assert len(moves) == 3


def test_excluded_brokers_keep_their_replicas_and_get_no_others() -> None:
    before = topic("t", (1, 2), (2, 3))
    moves = plan_moves(before, Wish(racks(4), keeping=racks(2, 3)))
    assert [(move.partition.partition, set(move.after)) for move in moves] == [(0, {2, 4})]


def test_too_few_brokers_are_reported_with_advice() -> None:
    before = topic("t", (1, 2, 3))
    with pytest.raises(Impossible, match=r"t-0 would have 3 replicas, and only 2 brokers could have them \(1, 2\)"):
        plan_moves(before, Wish(racks(1, 2)))
    with pytest.raises(Impossible, match="no broker is left"):
        plan_moves(before, Wish({}))


def test_preferred_leaders_are_spread_without_copying() -> None:
    before = topic("t", *[(1, 2, 3)] * 6)
    moves = plan_moves(before, Wish(racks(1, 2, 3), balance=True))
    assert not any(move.added or move.removed for move in moves)
    assert Counter(replicas[0] for replicas in after(before, moves).values()) == {1: 2, 2: 2, 3: 2}


def test_other_topics_count_for_how_full_a_broker_is() -> None:
    before = topic("t", (1,))
    (move,) = plan_moves(before, Wish(racks(2, 3)), topic("other", (2,), (2,)))
    assert move.after == (3,)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Assignment, dict[int, str | None]]:
    count = draw(st.integers(1, 7))
    of_rack = draw(st.integers(1, 3))
    has_racks = draw(st.booleans())
    brokers: dict[int, str | None] = {
        broker: f"r{broker % of_rack}" if has_racks else None for broker in range(1, count + 1)
    }
    replicas = st.lists(st.sampled_from(sorted(brokers)), min_size=1, max_size=min(3, count), unique=True)
    topics = draw(st.lists(st.lists(replicas, min_size=1, max_size=8), min_size=1, max_size=3))
    assignment: Assignment = {}
    for number, partitions in enumerate(topics):
        assignment |= topic(f"t{number}", *partitions)
    return assignment, brokers


def spread(replicas: Sequence[int], brokers: Mapping[int, str | None]) -> int:
    return len({brokers[broker] for broker in replicas})


@given(clusters())
def test_a_balanced_plan_is_valid_even_and_needs_no_second_one(
    cluster: tuple[Assignment, dict[int, str | None]],
) -> None:
    before, brokers = cluster
    planned = after(before, plan_moves(before, Wish(brokers, balance=True)))
    for partition, replicas in planned.items():
        assert len(set(replicas)) == len(before[partition])
        assert spread(replicas, brokers) >= spread(before[partition], brokers)
        assert spread(replicas, brokers) == min(len(replicas), len(set(brokers.values())))
    if set(brokers.values()) == {None}:
        counts = [held(planned)[broker] for broker in brokers]
        assert max(counts) - min(counts) <= 1
    again = plan_moves(planned, Wish(brokers, balance=True))
    assert not any(move.added for move in again)


@given(clusters(), st.data())
def test_a_drain_copies_only_the_brokers_replicas(
    cluster: tuple[Assignment, dict[int, str | None]], data: st.DataObject
) -> None:
    before, brokers = cluster
    drained = data.draw(st.sampled_from(sorted(brokers)))
    left = {broker: rack for broker, rack in brokers.items() if broker != drained}
    if max(len(replicas) for replicas in before.values()) > len(left):
        with pytest.raises(Impossible):
            plan_moves(before, Wish(left))
        return
    moves = plan_moves(before, Wish(left))
    assert drained not in held(after(before, moves))
    assert all(move.removed == (drained,) and len(move.added) == 1 for move in moves)
    assert {move.partition for move in moves} == {each for each, replicas in before.items() if drained in replicas}


@pytest.mark.parametrize(("text", "rate"), [("1", 1), ("5000", 5000), ("50M", 50_000_000), ("2k", 2000), ("1G", 10**9)])
def test_rates_are_numbers_with_a_unit(text: str, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "0", "M", "-1", "5MB", "1.5M", "ten"])
def test_invalid_rates_are_reported(text: str) -> None:
    with pytest.raises(ValueError, match="such as 50000000 or 50M"):
        parse_rate(text)
