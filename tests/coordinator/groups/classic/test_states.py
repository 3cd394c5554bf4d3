"""The table of states, and what docs/groups.md draws from it."""

from __future__ import annotations

import pytest

from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.groups.classic.states import TRANSITIONS, ClassicState, Event


def test_every_state_can_be_reached_from_an_empty_group() -> None:
    reached = {ClassicState.EMPTY}
    for _ in ClassicState:
        reached |= {after for (before, _), after in TRANSITIONS.items() if before in reached}
    assert reached == set(ClassicState)


def test_a_dead_transaction_has_no_transitions() -> None:
    assert not [before for before, _ in TRANSITIONS if before is ClassicState.DEAD]


def test_a_group_becomes_stable_only_by_an_assignment() -> None:
    ways = [way for way, after in TRANSITIONS.items() if after is ClassicState.STABLE]
    assert ways == [(ClassicState.COMPLETING_REBALANCE, Event.ASSIGNED)]


def test_a_group_rebalances_from_every_state_but_the_rebalance_itself() -> None:
    group = ClassicGroup("g", 0)
    can = set()
    for state in ClassicState:
        group.state = state
        if group.can_rebalance:
            can.add(state)
    assert can == {ClassicState.EMPTY, ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE}


def test_transitions_missing_in_the_table_are_impossible() -> None:
    with pytest.raises(KeyError):
        ClassicGroup("g", 0).move(Event.ASSIGNED, 0)
