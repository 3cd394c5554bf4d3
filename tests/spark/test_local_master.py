import pytest

from cordwood.spark.local_master import CORES_VARIABLE, is_local, processors, tell_cores, told_cores


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local[2]", 2), ("local[3,4]", 3), ("local", 1), ("local[*]", processors()), ("local[*, 2]", processors())],
)
def test_a_master_on_this_machine_says_how_many_tasks_run_at_once(master: str, cores: int) -> None:
    environment: dict[str, str] = {}
    tell_cores(master, environment)
    assert told_cores(environment) == cores


@pytest.mark.parametrize("master", ["spark://localhost:7077", "yarn", "local-cluster[2,1,1024]", "k8s://https://h"])
def test_the_parallelism_of_a_cluster_is_unknown_even_after_a_local_master(master: str) -> None:
    environment = {CORES_VARIABLE: "8"}
    tell_cores(master, environment)
    assert told_cores(environment) is None


def test_only_masters_called_local_run_here() -> None:
    assert is_local("local[2]")
    assert not is_local("spark://localhost:7077")
