"""The real node, crashed and started again in a simulated world, keeps what it promises: hundreds of histories."""

import pytest

from cordwood.sim.__main__ import describe, outcome_of

SEEDS = {
    "node": 300,
    "groups": 120,
    "transactions": 120,
    "damage": 200,
    "quorum": 200,
    "cluster": 240,
    "cluster-groups": 30,
    "cluster-transactions": 30,
    "registry": 30,
}
SEEDS_PER_TEST = 10
STRETCHES = [(workload, first) for workload, seeds in SEEDS.items() for first in range(0, seeds, SEEDS_PER_TEST)]


@pytest.mark.parametrize(("workload", "first"), STRETCHES)
def test_no_invariant_is_violated(workload: str, first: int) -> None:
    for seed in range(first, first + SEEDS_PER_TEST):
        outcome = outcome_of(seed, workload)
        assert not outcome.violations, describe(outcome)
