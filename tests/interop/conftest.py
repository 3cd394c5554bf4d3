"""Clusters of Apache Kafka's and Cordwood's nodes. `make interop` runs these tests; without Kafka they are skipped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.interop.mixed_cluster import KAFKA_HOME, Kind, MixedCluster, StartCluster

_KINDS = {"K": Kind.KAFKA, "C": Kind.CORDWOOD}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if KAFKA_HOME is None:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="needs Apache Kafka: make interop"))


@pytest.fixture
def start_cluster(tmp_path: Path) -> Iterator[StartCluster]:
    """Starts a cluster of a node for each letter, K for Kafka's and C for Cordwood's, with ids from 1."""
    started: list[MixedCluster] = []

    def start(
        kinds: str, roles: Mapping[int, str] | None = None, settings: Mapping[str, str] | None = None
    ) -> MixedCluster:
        chosen = {node_id: _KINDS[letter] for node_id, letter in enumerate(kinds, start=1)}
        cluster = MixedCluster(tmp_path / f"cluster{len(started)}", chosen, roles, settings)
        started.append(cluster)
        cluster.start()
        return cluster

    yield start
    for cluster in started:
        cluster.close()
