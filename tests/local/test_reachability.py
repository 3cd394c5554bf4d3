"""Operators are warned when controllers cannot be reached."""

from cordwood.quorum.reachability import GRACE_S, REPEAT_S, Reachability
from cordwood.runtime.network import Address

ONE, TWO = Address("one", 9093), Address("two", 9093)


def failed(reachability: Reachability, address: Address, *times: float) -> list[dict[Address, float]]:
    """The log lines when requests fail at these times, each sent as soon as the last one has failed."""
    lines = [reachability.failed(address, times[max(0, number - 1)], now) for number, now in enumerate(times)]
    return [dict(line) for line in lines if line is not None]


def test_a_controller_that_is_away_for_a_moment_is_not_logged() -> None:
    reachability = Reachability()
    assert failed(reachability, ONE, 100, 100 + GRACE_S - 1) == []
    assert reachability.succeeded(ONE, 100 + GRACE_S - 1) is None


def test_one_line_names_all_missing_controllers_and_is_repeated_rarely() -> None:
    reachability = Reachability()
    failed(reachability, ONE, 100)
    failed(reachability, TWO, 103)
    first = 100 + GRACE_S
    assert failed(reachability, ONE, 100, first) == [{ONE: GRACE_S, TWO: GRACE_S - 3}]
    assert failed(reachability, TWO, 103, first + REPEAT_S - 1) == []
    again = {ONE: GRACE_S + REPEAT_S, TWO: GRACE_S + REPEAT_S - 3}
    assert failed(reachability, ONE, first, first + REPEAT_S) == [again]


def test_a_controller_that_comes_back_is_logged_once() -> None:
    reachability = Reachability()
    assert failed(reachability, ONE, 100, 120)
    assert reachability.succeeded(ONE, 130) == 30
    assert reachability.succeeded(ONE, 131) is None


def test_the_return_of_a_controller_whose_absence_was_not_logged_is_not_logged_either() -> None:
    reachability = Reachability()
    failed(reachability, ONE, 100)
    # Nothing was asked of it in between.
    assert reachability.succeeded(ONE, 100 + 5 * GRACE_S) is None


def test_a_failure_of_long_ago_does_not_count() -> None:
    reachability = Reachability()
    failed(reachability, ONE, 100)
    later = 100 + 10 * REPEAT_S
    assert failed(reachability, ONE, later) == []
    assert failed(reachability, ONE, later, later + GRACE_S) == [{ONE: GRACE_S}]
