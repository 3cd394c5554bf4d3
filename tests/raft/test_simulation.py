"""Random faults against whole quorums, and the bugs that have to be found that way."""

import pytest

from tests.raft.planted_bugs import BUGS, Plant
from tests.raft.raft_sim import Violation
from tests.raft.raft_workload import simulate


@pytest.mark.parametrize("voters", [1, 3, 5])
@pytest.mark.parametrize("seed", range(12))
def test_a_quorum_keeps_its_invariants_and_recovers(seed: int, voters: int) -> None:
    world = simulate(seed, voters)
    assert world.acknowledged
    assert world.judge.committed


def test_a_seed_replays_its_run() -> None:
    traces: list[list[str]] = [[], []]
    for trace in traces:
        simulate(5, 3, trace.append)
    assert traces[0] == traces[1]


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_the_simulation_finds_a_planted_bug(bug: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    bug(monkeypatch)
    with pytest.raises(Violation):
        _simulate_all(range(200))


def _simulate_all(seeds: range) -> None:
    for seed in seeds:
        simulate(seed, 3)
