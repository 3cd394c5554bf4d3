"""When operators hear that controllers cannot be reached."""

from cordwood.quorum.reachability import GRACE_S, REPEAT_S, Reachability
from cordwood.runtime.network import Address

ONE, TWO = Address("one", 9093), Address("two", 9093)


def test_a_controller_that_is_away_for_a_moment_is_not_logged() -> None:
    reachability = Reachability()
    assert reachability.failed(ONE, 100) is None
    assert reachability.failed(ONE, 100 + GRACE_S - 1) is None
    assert reachability.succeeded(ONE, 100 + GRACE_S - 1) is None


def test_one_line_names_all_that_are_away_and_is_repeated_rarely() -> None:
    reachability = Reachability()
    reachability.failed(ONE, 100)
    reachability.failed(TWO, 103)
    first = 100 + GRACE_S
    assert reachability.failed(ONE, first) == {ONE: GRACE_S, TWO: GRACE_S - 3}
    assert reachability.failed(TWO, first + 30) is None
    assert reachability.failed(ONE, first + REPEAT_S) == {ONE: GRACE_S + REPEAT_S, TWO: GRACE_S + REPEAT_S - 3}


def test_a_controller_that_comes_back_is_logged_once() -> None:
    reachability = Reachability()
    reachability.failed(ONE, 100)
    reachability.failed(ONE, 120)
    assert reachability.succeeded(ONE, 130) == 30
    assert reachability.succeeded(ONE, 131) is None


def test_the_return_of_a_controller_whose_absence_was_not_logged_is_not_logged_either() -> None:
    reachability = Reachability()
    reachability.failed(ONE, 100)
    # Nothing was asked of it in between.
    assert reachability.succeeded(ONE, 100 + 5 * GRACE_S) is None


def test_a_failure_of_long_ago_does_not_count() -> None:
    reachability = Reachability()
    reachability.failed(ONE, 100)
    later = 100 + 10 * REPEAT_S
    assert reachability.failed(ONE, later) is None
    assert reachability.failed(TWO, later) is None
    assert reachability.failed(ONE, later + GRACE_S) == {ONE: GRACE_S, TWO: GRACE_S}
