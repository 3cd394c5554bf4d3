"""`cordwood quorum` against a cluster of three."""

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.local.local_nodes import up


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "cordwood", *arguments], capture_output=True, text=True)


def replicas(where: str) -> dict[int, dict[str, Any]]:
    status = json.loads(run("quorum", "status", "--json", "--bootstrap", where).stdout)
    return {replica["id"]: replica for replica in status["replicas"]}


def test_a_voter_is_removed_and_added_again() -> None:
    with up("--brokers", "3", "--port", "0", "--ephemeral") as cluster:
        where = cluster.await_line("is ready")[0].partition("bootstrap ")[2].partition(", data")[0]
        rows = {int(row[1]): row for row in (line.split("\t") for line in cluster.await_line("node\t", 3))}
        before = replicas(where)
        assert sorted(replica["role"] for replica in before.values()) == ["follower", "follower", "leader"]
        assert all(replica["lastFetchTimestamp"] > 0 for replica in before.values())
        chosen = next(node_id for node_id, replica in before.items() if replica["role"] == "follower")

        removed = run("quorum", "remove", str(chosen), "--bootstrap", where)
        assert removed.returncode == 0, removed.stderr
        assert replicas(where)[chosen]["role"] == "observer"

        again = run("quorum", "remove", str(chosen), "--bootstrap", where)
        assert again.returncode == 1
        assert "VOTER_NOT_FOUND" in again.stderr

        spec = f"{chosen}@{rows[chosen][4]}:{before[chosen]['directoryId']}"
        added = run("quorum", "add", spec, "--bootstrap", where)
        assert added.returncode == 0, added.stderr
        assert replicas(where)[chosen]["role"] == "follower"


@pytest.mark.parametrize("spec", ["3", "3@host:9093", "3@host:9093:junk"])
def test_a_controller_that_is_not_well_named_is_refused(spec: str) -> None:
    done = run("quorum", "add", spec)
    assert done.returncode == 2
    assert "ID@HOST:PORT:DIRECTORY-ID" in done.stderr
