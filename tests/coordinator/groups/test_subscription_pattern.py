"""Subscriptions by regular expression: what is refused, and what is matched."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.coordinator.groups import subscription_pattern
from cordwood.coordinator.groups.subscription_pattern import check_pattern, resolve_patterns
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

TOPICS = ["orders", "orders-eu", "orders-us", "payments", "__consumer_offsets", "a.b"]


@pytest.mark.parametrize(
    ("pattern", "matched"),
    [
        ("orders", {"orders"}),
        ("orders.*", {"orders", "orders-eu", "orders-us"}),
        ("ord", set()),
        ("rders", set()),
        ("orders-(eu|us)", {"orders-eu", "orders-us"}),
        ("orders|payments", {"orders", "payments"}),
        ("^pay.*$", {"payments"}),
        ("(?i)ORDERS", {"orders"}),
        ("__.*", {"__consumer_offsets"}),
        ("a.b", {"a.b"}),
        (r"\Qa.b\E", {"a.b"}),
        (".*", set(TOPICS)),
        ("", set()),
        ("größer", set()),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matched: set[str]) -> None:
    check_pattern(pattern)
    assert resolve_patterns([pattern], TOPICS) == {pattern: matched}


@pytest.mark.parametrize(
    "pattern", ["(", "[z-a]", "*a", "a**", "a{1001}", "x{2,1}", "\\", r"(a)\1", "a(?=b)", "a(?!b)"]
)
def test_a_pattern_that_re2_does_not_know_is_refused(pattern: str) -> None:
    with pytest.raises(Refusal) as refused:
        check_pattern(pattern)
    assert refused.value.error is ErrorCode.INVALID_REGULAR_EXPRESSION


def test_the_refusal_names_the_pattern_and_the_reason() -> None:
    with pytest.raises(Refusal, match=r"`orders\(` .*: missing \): orders\("):
        check_pattern("orders(")


def test_a_refused_pattern_is_not_complained_about_past_the_loggers(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Refusal):
        check_pattern("(")
    assert capfd.readouterr().err == ""


def test_a_pattern_too_large_for_re2_is_refused() -> None:
    with pytest.raises(Refusal, match="too large"):
        check_pattern(r"(?:\pL{100}){10}")


def test_patterns_are_resolved_each_on_its_own() -> None:
    assert resolve_patterns(["orders.*", "pay.*", "nothing"], TOPICS) == {
        "orders.*": {"orders", "orders-eu", "orders-us"},
        "pay.*": {"payments"},
        "nothing": set(),
    }


def test_a_stored_pattern_that_is_not_valid_matches_nothing_and_spoils_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        assert resolve_patterns(["(", "orders"], TOPICS) == {"(": set(), "orders": {"orders"}}
    assert "'('" in caplog.text


def test_a_pattern_too_large_for_a_set_is_matched_alone() -> None:
    pattern = r"(?:\pL|[0-9_.-]){1,40}"
    assert resolve_patterns([pattern, "orders"], TOPICS) == {pattern: set(TOPICS), "orders": {"orders"}}


@given(
    st.lists(st.text("ab.*|", max_size=6), unique=True), st.lists(st.text("ab", min_size=1, max_size=4), unique=True)
)
def test_many_patterns_together_match_the_same_as_each_alone(patterns: list[str], names: list[str]) -> None:
    together = resolve_patterns(patterns, names)
    alone = {pattern: resolve_patterns([pattern], names)[pattern] for pattern in patterns}
    assert together == alone


def test_more_patterns_than_one_set_holds_are_all_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_pattern, "LARGEST_SET", 40)
    patterns = [f"topic-{number}.*" for number in range(50)]
    names = [f"topic-{number}-a" for number in range(50)]
    resolved = resolve_patterns(patterns, names)
    assert {pattern: len(found) for pattern, found in resolved.items()} == {
        pattern: 11 if number in range(1, 5) else 1 for number, pattern in enumerate(patterns)
    }


def test_a_broker_that_sees_no_pattern_does_not_load_re2() -> None:
    check = "import sys, cordwood.coordinator.groups.subscription_pattern; sys.exit('re2' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check]).returncode == 0
