"""The checks of a group's history detect violations."""

from itertools import count

import pytest

from tests.foreign_clients.group_history import GroupHistory
from tests.foreign_clients.member_journal import Event, Place, Position

TOPIC = "t"
_times = count()


def assigned(member: str, partition: int, generation: int = 1) -> Event:
    return Event("assigned", member, next(_times), generation, (Place(TOPIC, partition),))


def revoked(member: str, partition: int) -> Event:
    return Event("revoked", member, next(_times), 1, (Place(TOPIC, partition),))


def processed(member: str, partition: int, *offsets: int, generation: int = 1) -> Event:
    records = tuple(Position(TOPIC, partition, offset) for offset in offsets)
    return Event("processed", member, next(_times), generation, (), records)


def committed(member: str, partition: int, offset: int) -> Event:
    return Event("committed", member, next(_times), 1, (), (Position(TOPIC, partition, offset),))


def test_a_history_that_is_right_passes() -> None:
    events = [assigned("a", 0), processed("a", 0, 0, 1), revoked("a", 0)]
    events += [assigned("b", 0, 2), processed("b", 0, 2, generation=2)]
    history = GroupHistory(events)
    history.check_one_owner_per_generation()
    history.check_owned_by_one_at_a_time()
    history.check_in_order()
    history.check_each_processed({Place(TOPIC, 0): 3})
    assert history.owned() == {"a": set(), "b": {Place(TOPIC, 0)}}


def test_two_workers_on_a_partition_in_one_generation_are_seen() -> None:
    history = GroupHistory([processed("a", 0, 0), processed("b", 0, 1)])
    with pytest.raises(AssertionError):
        history.check_one_owner_per_generation()


def test_a_record_that_is_worked_on_twice_in_a_generation_is_seen() -> None:
    history = GroupHistory([processed("a", 0, 0), processed("a", 0, 0)])
    with pytest.raises(AssertionError):
        history.check_one_owner_per_generation()


def test_a_partition_that_is_given_away_too_early_is_seen() -> None:
    history = GroupHistory([assigned("a", 0), assigned("b", 0, 2), revoked("a", 0)])
    with pytest.raises(AssertionError):
        history.check_owned_by_one_at_a_time()


def test_a_gap_is_seen() -> None:
    history = GroupHistory([assigned("a", 0), processed("a", 0, 0), processed("a", 0, 2)])
    with pytest.raises(AssertionError):
        history.check_in_order()


@pytest.mark.parametrize("offsets", [(0,), (0, 1, 1), (0, 1, 2)], ids=["missing", "twice", "unknown"])
def test_records_that_are_not_worked_on_once_are_seen(offsets: tuple[int, ...]) -> None:
    history = GroupHistory([processed("a", 0, *offsets)])
    with pytest.raises(AssertionError):
        history.check_each_processed({Place(TOPIC, 0): 2})


@pytest.mark.parametrize("is_refused", [True, False])
def test_work_is_done_again_only_if_it_could_not_be_committed(is_refused: bool) -> None:
    first = [processed("a", 0, 0, 1), committed("a", 0, 1)]
    if is_refused:
        first.append(Event("refused", "a", next(_times), 1, text="too late"))
    first.append(revoked("a", 0))
    done_again = GroupHistory([*first, processed("b", 0, 1)])
    if is_refused:
        done_again.check_each_processed({Place(TOPIC, 0): 2})
        # But for what was committed.
        done_again = GroupHistory([*first, processed("b", 0, 0, 1)])
    with pytest.raises(AssertionError):
        done_again.check_each_processed({Place(TOPIC, 0): 2})


def test_work_that_is_committed_by_two_members_is_seen() -> None:
    events = [processed("a", 0, 0, 1), committed("a", 0, 2), processed("b", 0, 1, 2)]
    GroupHistory(events).check_committed_once()
    with pytest.raises(AssertionError):
        GroupHistory([*events, committed("b", 0, 3)]).check_committed_once()
