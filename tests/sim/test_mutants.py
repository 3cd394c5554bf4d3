"""The checks find nodes, and clients, that are broken on purpose."""

import pytest

from cordwood.sim.workload import run_seed
from tests.sim import client_mutants
from tests.sim.cluster_mutants import CLUSTER_GROUP_MUTANTS, CLUSTER_MUTANTS, CLUSTER_TRANSACTION_MUTANTS
from tests.sim.coordinator_mutants import GROUP_MUTANTS, TRANSACTION_MUTANTS
from tests.sim.damage_mutants import DAMAGE_MUTANTS
from tests.sim.mutants import MUTANTS, Mutant
from tests.sim.quorum_mutants import QUORUM_MUTANTS
from tests.sim.registry_mutants import REGISTRY_MUTANTS

BROKEN = [
    *(("node", mutant) for mutant in MUTANTS),
    *(("groups", mutant) for mutant in GROUP_MUTANTS),
    *(("transactions", mutant) for mutant in TRANSACTION_MUTANTS),
    *(("damage", mutant) for mutant in DAMAGE_MUTANTS),
    *(("quorum", mutant) for mutant in QUORUM_MUTANTS),
    *(("cluster", mutant) for mutant in CLUSTER_MUTANTS),
    *(("registry", mutant) for mutant in REGISTRY_MUTANTS),
    *(("cluster-groups", mutant) for mutant in CLUSTER_GROUP_MUTANTS),
    *(("cluster-transactions", mutant) for mutant in CLUSTER_TRANSACTION_MUTANTS),
]
BROKEN_CLIENTS = [
    *(("node", mutant) for mutant in client_mutants.NODE_MUTANTS),
    *(("groups", mutant) for mutant in client_mutants.GROUP_MUTANTS),
    *(("transactions", mutant) for mutant in client_mutants.TRANSACTION_MUTANTS),
]
# Most mutants are found by one seed in two, the rarest by one in twenty.
PATIENCE_SEEDS = 100


@pytest.mark.parametrize(
    ("workload", "mutant"), BROKEN, ids=[f"{workload}-{mutant.__name__}" for workload, mutant in BROKEN]
)
def test_a_planted_bug_in_the_node_is_found(workload: str, mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert any(run_seed(seed, workload).violations for seed in range(1000, 1000 + PATIENCE_SEEDS))


@pytest.mark.parametrize(
    ("workload", "mutant"), BROKEN_CLIENTS, ids=[f"{workload}-{mutant.__name__}" for workload, mutant in BROKEN_CLIENTS]
)
def test_a_planted_bug_in_the_client_is_found(workload: str, mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    assert any(run_seed(seed, workload).violations for seed in range(1000, 1000 + PATIENCE_SEEDS))
