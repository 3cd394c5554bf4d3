"""`cordwood reassign`, `cordwood broker drain` and the health of topics, against a cluster of real processes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import cordwood.testing
from cordwood.testing.local_cluster import LocalCluster
from tests.cli.cli_runner import Cli, until


@pytest.fixture(scope="module")
def nodes() -> Iterator[LocalCluster]:
    # One controller apart from the brokers, so that any broker may go.
    with cordwood.testing.cluster(brokers=4, controllers=1) as cluster:
        yield cluster


@pytest.fixture
def four(nodes: LocalCluster) -> Cli:
    return Cli(nodes.bootstrap)


@pytest.fixture
def here(four: Cli, topic: str) -> Iterator[str]:
    """A topic with six partitions on brokers 1 and 2, and some records."""
    four("topic", "create", topic, *["--replicas", "1:2"] * 6)
    four("produce", topic, stdin=b"".join(b"%d\n" % number for number in range(5_000)))
    yield topic
    four("topic", "delete", topic, "--yes")


def replicas(cli: Cli, topic: str) -> list[list[int]]:
    return [partition["replicas"] for partition in cli("topic", "describe", topic, "--json").json[0]["partitions"]]


def throttles(cli: Cli, topic: str) -> list[str]:
    told = cli("config", "describe", "topic", topic).lines
    for broker in cli("broker", "list").lines:
        told += cli("config", "describe", "broker", broker.split("\t")[0]).lines
    return [line for line in told if "throttled" in line]


def test_a_plan_is_shown_written_and_changes_nothing(four: Cli, here: str, tmp_path: Path) -> None:
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    lines = four("reassign", "plan", here, "-o", str(plan), "--rollback", str(back)).lines
    moves = [line.split("\t") for line in lines if line.startswith("move\t")]
    brokers = {line.split("\t")[1]: line.split("\t")[2:] for line in lines if line.startswith("broker\t")}
    planned = json.loads(plan.read_text())
    assert planned["version"] == 1
    assert [(each["topic"], str(each["partition"])) for each in planned["partitions"]] == [
        (move[1], move[2]) for move in moves
    ]
    assert all(each["log_dirs"] == ["any", "any"] for each in planned["partitions"])
    assert all(each["replicas"] == [1, 2] for each in json.loads(back.read_text())["partitions"])
    assert brokers["1"][:3] == ["rack-1", "6", "3"]
    assert brokers["4"][:3] == ["rack-4", "0", "3"]
    assert replicas(four, here) == [[1, 2]] * 6
    assert four("reassign", "plan", here, "--json").json == planned


def test_a_plan_is_applied_throttled_and_taken_back(four: Cli, here: str, tmp_path: Path) -> None:
    plan, back = tmp_path / "plan.json", tmp_path / "back.json"
    four("reassign", "plan", here, "-o", str(plan))
    four("reassign", "apply", str(plan), "--rollback", str(back), "--throttle", "100M", "--wait")
    planned = {each["partition"]: each["replicas"] for each in json.loads(plan.read_text())["partitions"]}
    now = replicas(four, here)
    assert all(now[partition] == target for partition, target in planned.items())
    assert throttles(four, here) == []
    assert len(four("consume", here).lines) == 5_000
    assert four("reassign", "plan", here).lines == []
    four("reassign", "apply", "--from-file", str(back), "--wait")
    assert replicas(four, here) == [[1, 2]] * 6


def test_throttles_are_kafkas_and_go_with_the_last_move(nodes: LocalCluster, four: Cli, here: str) -> None:
    # Moves to a broker that is down do not complete.
    nodes.kill(4)
    try:
        until(lambda: [line.split("\t")[0] for line in four("broker", "list").lines] == ["1", "2", "3"])
        four("reassign", "apply", f"{here}:0=3:4", f"{here}:1=3:4", "--throttle", "1M")
        told = {tuple(line.split("\t")[:2]) for line in throttles(four, here)}
        assert told == {
            ("leader.replication.throttled.replicas", "0:1,0:2,1:1,1:2"),
            ("follower.replication.throttled.replicas", "0:3,0:4,1:3,1:4"),
            ("leader.replication.throttled.rate", "1000000"),
            ("follower.replication.throttled.rate", "1000000"),
        }
        shown = four("reassign", "status", here, "--json").json
        assert [(each["partition"], sorted(each["addingReplicas"])) for each in shown] == [(0, [3, 4]), (1, [3, 4])]
        assert all(each["copiedBytes"] <= each["totalBytes"] for each in shown)
        assert len(four("reassign", "status").lines) == 2
        four("reassign", "cancel", here)
    finally:
        nodes.start(4)
    assert four("reassign", "status", here).lines == []
    assert throttles(four, here) == []
    assert replicas(four, here) == [[1, 2]] * 6


def test_a_replication_factor_is_changed(four: Cli, here: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    four("reassign", "plan", here, "--replication-factor", "3", "-o", str(plan))
    four("reassign", "apply", str(plan), "--wait")
    assert all(len(each) == 3 and each[:2] == [1, 2] for each in replicas(four, here))


def test_impossible_plans_are_reported(four: Cli, here: str, tmp_path: Path) -> None:
    assert "there is no broker 9" in four("reassign", "plan", "--drain", "9", fails=1).stderr
    told = four("reassign", "plan", here, "--broker", "1", fails=1).stderr
    assert "would have 2 replicas, and only 1 broker could have them (1)" in told
    assert f"{tmp_path}/none.json: No such file" in four("reassign", "apply", f"{tmp_path}/none.json", fails=2).stderr
    assert "such as 50000000 or 50M" in four("reassign", "apply", "t:0=1", "--throttle", "fast", fails=2).stderr
    assert (
        "no such topic or partition" in four("reassign", "apply", f"{here}:99=1:2", "--throttle", "1M", fails=1).stderr
    )


def test_a_broker_is_drained(four: Cli, here: str) -> None:
    planned = four("broker", "drain", "1", "--dry-run").lines
    assert any(line.startswith(f"move\t{here}\t") for line in planned)
    assert replicas(four, here) == [[1, 2]] * 6
    four("broker", "drain", "1", "--yes")
    told = {each["id"]: each for each in four("broker", "list", "--replicas", "--json").json}
    assert (told[1]["replicas"], told[1]["leaders"]) == (0, 0)
    assert told[2]["leaders"] + told[3]["leaders"] + told[4]["leaders"] >= 6
    assert len(four("consume", here).lines) == 5_000
    four("broker", "drain", "2", "--to", "1", "--yes")
    assert all(2 not in each for each in replicas(four, here))


def test_a_drain_that_could_not_end_does_not_begin(four: Cli, topic: str) -> None:
    four("topic", "create", topic, "--replicas", "1:2:3:4")
    try:
        told = four("broker", "drain", "1", "--yes", fails=1).stderr
        assert told.startswith("cordwood: broker 1 cannot be drained: ")
        assert f"{topic}-0 would have 4 replicas, and only 3 brokers could have them (2, 3, 4)" in told
        assert "lower the replication factor" in told
        assert "--to 1 is itself to be drained" in four("broker", "drain", "1", "--to", "1", fails=1).stderr
        assert replicas(four, topic) == [[1, 2, 3, 4]]
    finally:
        four("topic", "delete", topic, "--yes")


def test_unhealthy_partitions_are_found_with_eligible_leaders_and_lag(
    nodes: LocalCluster, four: Cli, topic: str
) -> None:
    four("topic", "create", topic, "--replicas", "1:2", "--replicas", "3:1", "--set", "min.insync.replicas=2")
    four("produce", topic, "-p", "0", stdin=b"a\nb\n")

    def of(*options: str) -> list[int]:
        found = four("topic", "describe", topic, *options, "--json").json
        return [partition["partition"] for each in found for partition in each["partitions"]]

    assert of("--under-replicated", "--under-min-isr", "--unavailable") == []
    assert of("--at-min-isr") == [0, 1]
    (line,) = [line for line in four("topic", "describe", topic).lines if line.startswith("partition\t0\t")]
    assert line.endswith("\t2=0")
    nodes.kill(2)
    try:
        until(lambda: of("--under-replicated") == [0])
        assert of("--under-min-isr") == [0]
        assert of("--at-min-isr") == [1]
        assert of("--unavailable") == []
        (partition,) = four("topic", "describe", topic, "--under-replicated", "--json").json[0]["partitions"]
        assert partition["eligibleLeaderReplicas"] == [2]
        assert partition["replicaLag"] == [
            {"broker": 1, "logEndOffset": 2, "lag": 0},
            {"broker": 2, "logEndOffset": None, "lag": None},
        ]
        (row,) = four("topic", "describe", topic, "--under-min-isr").lines
        assert row.split("\t")[0:2] == [topic, "0"]
        assert row.split("\t")[-2:] == ["2", "2=?"]
        assert "--drain 2" in four("reassign", "plan", topic, fails=1).stderr
        nodes.kill(1)
        until(lambda: of("--unavailable") == [0])
        assert f"{topic}-0 has no leader to copy from" in four("broker", "drain", "2", "--yes", fails=1).stderr
    finally:
        for broker in (1, 2):
            if nodes.pid(broker) is None:
                nodes.start(broker)
    until(lambda: of("--under-replicated") == [])
    four("topic", "delete", topic, "--yes")


def test_an_election_reports_its_result_and_refusals(nodes: LocalCluster, four: Cli, topic: str) -> None:
    four("topic", "create", topic, "--replicas", "1:2", "--replicas", "2:1")
    four("reassign", "apply", f"{topic}:0=2:1")
    assert four("leader", "elect", topic).lines == [f"{topic}\t0\t2"]
    assert four("leader", "elect", topic).lines == []
    four("reassign", "apply", f"{topic}:0=1:2")
    nodes.kill(2)
    try:
        until(lambda: len(four("topic", "describe", topic, "--under-replicated").lines) == 2)
        done = four("leader", "elect", topic, fails=1)
        assert done.stderr == f"cordwood: {topic}-1: its preferred leader, broker 2, is down; broker 1 still leads it\n"
        nodes.kill(1)
        until(lambda: len(four("topic", "describe", topic, "--unavailable").lines) == 2)
        done = four("leader", "elect", f"{topic}:0", "--unclean", "--yes", fails=1)
        assert f"{topic}-0: none of its replicas is alive: start one of the brokers 1, 2" in done.stderr
    finally:
        for broker in (1, 2):
            if nodes.pid(broker) is None:
                nodes.start(broker)
    until(lambda: four("topic", "describe", topic, "--under-replicated").lines == [])
    four("topic", "delete", topic, "--yes")


def test_replicas_of_a_lost_broker_are_recreated_elsewhere(
    nodes: LocalCluster, four: Cli, here: str, tmp_path: Path
) -> None:
    nodes.kill(2)
    try:
        until(lambda: len(four("topic", "describe", here, "--under-replicated").lines) == 6)
        told = four("reassign", "plan", here, fails=1).stderr
        assert "broker 2 is down and cannot take replicas: start it, or move its replicas away (--drain 2)" in told
        plan = tmp_path / "plan.json"
        four("reassign", "plan", here, "--drain", "2", "-o", str(plan))
        four("reassign", "apply", str(plan), "--throttle", "100M", "--wait")
        assert four("topic", "describe", here, "--under-replicated").lines == []
        assert all(2 not in each for each in replicas(four, here))
        assert throttles(four, here) == []
        assert len(four("consume", here).lines) == 5_000
    finally:
        nodes.start(2)
