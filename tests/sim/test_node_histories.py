"""The real node, crashed and started again in a simulated world, keeps what it promises: hundreds of histories."""

import pytest

from cordwood.sim.__main__ import describe, outcome_of

SEEDS = 300
SEEDS_PER_TEST = 10


@pytest.mark.parametrize("first", range(0, SEEDS, SEEDS_PER_TEST))
def test_nothing_promised_is_lost_doubled_or_reordered(first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = outcome_of(seed)
        assert not outcome.violations, describe(outcome)
