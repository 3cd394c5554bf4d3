"""The memory of a producer: bounded, and given out in turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.producer.buffer_pool import BufferPool, Reservation


def test_only_existing_records_are_returned() -> None:
    pool = BufferPool(100)
    assert pool.take(60)
    assert not pool.take(41)
    assert pool.take(40)
    assert pool.free_bytes == 0


def test_reservations_are_granted_in_order_even_if_a_later_one_is_smaller() -> None:
    pool = BufferPool(100)
    pool.take(100)
    served: list[str] = []
    pool.reserve(80, lambda: served.append("first"))
    pool.reserve(10, lambda: served.append("second"))
    pool.give(50)
    assert served == []
    assert not pool.take(10)
    pool.give(50)
    assert served == ["first", "second"]
    assert pool.free_bytes == 10


def test_a_reservation_may_be_granted_at_once() -> None:
    pool = BufferPool(100)
    assert pool.reserve(100, lambda: None).is_granted


def test_a_cancelled_waiter_leaves_its_place_to_the_next() -> None:
    pool = BufferPool(100)
    pool.take(50)
    first = pool.reserve(80, lambda: None)
    second = pool.reserve(30, lambda: None)
    first.cancel()
    assert second.is_granted
    assert not pool.is_short


def test_a_granted_reservation_that_is_cancelled_gives_back_once() -> None:
    pool = BufferPool(100)
    reservation = pool.reserve(70, lambda: None)
    reservation.cancel()
    reservation.cancel()
    assert pool.free_bytes == 100


def test_a_reservation_that_is_used_is_not_given_back() -> None:
    pool = BufferPool(100)
    reservation = pool.reserve(70, lambda: None)
    assert reservation.use() == 70
    reservation.cancel()
    assert pool.free_bytes == 30


def test_releasing_untaken_memory_is_an_error() -> None:
    with pytest.raises(AssertionError):
        BufferPool(100).give(1)


@given(st.lists(st.tuples(st.sampled_from(["take", "reserve", "give", "cancel"]), st.integers(0, 100)), max_size=60))
def test_it_never_gives_more_than_it_has_and_grants_in_order(steps: list[tuple[str, int]]) -> None:
    pool = BufferPool(100)
    held: list[int] = []
    line: list[Reservation] = []
    for what, number in steps:
        if what == "take":
            short = pool.is_short
            if pool.take(number):
                assert not short
                held.append(number)
        elif what == "reserve":
            line.append(pool.reserve(number, lambda: None))
        elif what == "give" and held:
            pool.give(held.pop(number % len(held)))
        elif what == "cancel" and line:
            line.pop(number % len(line)).cancel()
        waiting = [reservation for reservation in line if not reservation.is_granted]
        granted = [reservation for reservation in line if reservation.is_granted]
        assert line == granted + waiting, "the granted ones are those that came first"
        assert sum(held) + sum(reservation.size_bytes for reservation in granted) + pool.free_bytes == 100
        assert pool.free_bytes >= 0
        assert not waiting or waiting[0].size_bytes > pool.free_bytes
