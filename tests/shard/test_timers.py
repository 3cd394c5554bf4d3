"""Timers: what is due when, and that moving one is cheap."""

from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from cordwood.shard.decision import Decision
from cordwood.shard.timers import Timers
from tests.coordinator.shards import HandClock


def rings(_state: object) -> Decision[None]:
    return Decision(None)


def due(timers: Timers) -> list[Hashable]:
    keys = []
    while (found := timers.take_due()) is not None:
        keys.append(found[0])
    return keys


def test_due_timers_fire_in_order() -> None:
    clock = HandClock()
    timers = Timers(clock)
    for key, delay_ms in (("late", 300), ("early", 100), ("also early", 100), ("later", 400)):
        timers.after(key, delay_ms, rings)
    assert due(timers) == []
    clock.seconds = 0.3
    assert due(timers) == ["early", "also early", "late"]
    assert "later" in timers


def test_setting_one_again_moves_it() -> None:
    clock = HandClock()
    timers = Timers(clock)
    timers.after("sooner", 500, rings)
    timers.after("sooner", 100, rings)
    timers.after("later", 100, rings)
    timers.after("later", 500, rings)
    clock.seconds = 0.2
    assert due(timers) == ["sooner"]
    clock.seconds = 0.6
    assert due(timers) == ["later"]


def test_one_that_was_cleared_is_never_due() -> None:
    clock = HandClock()
    timers = Timers(clock)
    timers.after("key", 100, rings)
    timers.clear("key")
    clock.seconds = 1.0
    assert due(timers) == []
    assert "key" not in timers


def test_one_that_was_cleared_can_be_set_again() -> None:
    clock = HandClock()
    timers = Timers(clock)
    timers.after("key", 100, rings)
    timers.clear("key")
    timers.after("key", 50, rings)
    clock.seconds = 0.06
    assert due(timers) == ["key"]
    clock.seconds = 1.0
    assert due(timers) == []


def test_the_last_alarm_of_a_key_is_the_one() -> None:
    timers = Timers(HandClock())
    timers.after("key", 0, lambda _state: Decision("first"))
    timers.after("key", 0, lambda _state: Decision("second"))
    found = timers.take_due()
    assert found is not None
    assert found[1](None).response == "second"


def test_moving_one_later_does_not_make_the_queue_grow() -> None:
    """As each heartbeat of each member does."""
    clock = HandClock()
    timers = Timers(clock)
    for beat in range(1000):
        clock.seconds = beat * 0.003
        timers.after("session", 45_000, rings)
    assert len(timers._queue) == 1


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("after"), st.sampled_from("abcd"), st.integers(0, 50)),
        st.tuples(st.just("clear"), st.sampled_from("abcd"), st.just(0)),
        st.tuples(st.just("pass"), st.just(""), st.integers(1, 40)),
    )
)


@given(_STEPS)
def test_the_right_timers_are_due_after_any_changes(steps: list[tuple[str, str, int]]) -> None:
    clock = HandClock()
    timers = Timers(clock)
    model: dict[str, float] = {}
    for step, key, ms in steps:
        if step == "after":
            timers.after(key, ms, rings)
            model[key] = clock.seconds + ms / 1000
        elif step == "clear":
            timers.clear(key)
            model.pop(key, None)
        else:
            clock.seconds += ms / 1000
            expected = sorted(key for key, at in model.items() if at <= clock.seconds)
            assert sorted(map(str, due(timers))) == expected
            model = {key: at for key, at in model.items() if at > clock.seconds}
        assert len(timers) == len(model)
        next_at = timers.next_at
        assert not model or (next_at is not None and next_at <= min(model.values()))
