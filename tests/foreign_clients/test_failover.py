"""Clients on three nodes, of which those are killed that they need most: coordinators and leaders.

Numbers are read, transformed and written in transactions in the meantime, and each counts once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

from tests.foreign_clients.clients_fixtures import KAFKA, watched_nodes
from tests.foreign_clients.group_fixtures import SETTINGS
from tests.foreign_clients.kafka_client import Address, Reading
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.node_cluster import NodeCluster
from tests.foreign_clients.test_exactly_once import SINK_PARTITIONS, SOURCE_PARTITIONS, WORKERS, Numbers, Slot

NUMBERS_PER_ROUND = 40
# The time for a group and a producer to find their coordinators again on a busy machine.
PATIENCE_S = 150.0
# For records, before workers that have ended are looked for.
SLICE_S = 2.0
# Each kills a group coordinator, a transaction coordinator and a leader. `make failovers` has more of them, and more
# libraries.
FAILOVERS = os.environ.get("CORDWOOD_TEST_FAILOVERS")
ROUNDS = int(FAILOVERS or 1)
pytestmark = pytest.mark.skipif(KAFKA is not None, reason="the nodes are killed")
LIBRARIES = tuple(WORKERS) if FAILOVERS else ("librdkafka", "cordwood")
# Its producer waits for a connection to a coordinator that is gone for all of `request_timeout_ms` before it looks for
# another one, which takes longer than its calls do. So it is started again.
STUBBORN = "kafka-python"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    cluster = NodeCluster(tmp_path_factory.mktemp("cluster"), SETTINGS)
    cluster.start()
    watched_nodes.extend(cluster.nodes.values())
    yield cluster
    cluster.kill()


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_number_is_transformed_once_while_coordinators_and_leaders_are_killed(
    cluster: NodeCluster, library: str, topic: str, tmp_path: Path
) -> None:
    address = Address(cluster.bootstrap)
    sink = f"{topic}-sink"
    admin = LibrdkafkaClient(address)
    admin.create_topic(topic, SOURCE_PARTITIONS)
    admin.create_topic(sink, SINK_PARTITIONS)
    numbers = Numbers(address, topic)
    slots = [Slot(number, WORKERS[library], address, topic, tmp_path) for number in range(2)]
    try:
        for number, slot in enumerate(slots):
            slot.start(number, None)
        numbers.add(NUMBERS_PER_ROUND)
        read(admin, sink, numbers, slots)
        for _ in range(ROUNDS):
            for find_victim in (
                partial(cluster.group_coordinator, f"g-{topic}"),
                partial(cluster.transaction_coordinator, f"{topic}-0"),
                partial(cluster.partition_leader, sink),
            ):
                cluster.await_in_sync()
                victim = cluster.nodes[find_victim()]
                numbers.add(NUMBERS_PER_ROUND)
                victim.kill()
                numbers.add(NUMBERS_PER_ROUND)
                victim.start()
                if library == STUBBORN:
                    for number, slot in enumerate(slots):
                        slot.kill()
                        slot.start(number, None)
                read(admin, sink, numbers, slots)
        for slot in slots:
            slot.end(may_stall=True)
        read(admin, sink, numbers, slots)
    finally:
        for slot in slots:
            slot.kill()
    assert [text for slot in slots for text in slot.failures()] == []


def read(client: LibrdkafkaClient, sink: str, numbers: Numbers, slots: list[Slot]) -> None:
    """Everything once, so far. Workers whose library has stalled are started again, as a service would be."""
    deadline = monotonic() + PATIENCE_S
    for partition in range(SINK_PARTITIONS):
        expected = numbers.expected(partition)
        with Reading(client.reader(sink, partition=partition, start=0, isolation="read_committed")) as reading:
            while len(reading.records) < len(expected) and monotonic() < deadline:
                reading.records += reading.reader.poll(SLICE_S)
                for number, slot in enumerate(slots):
                    if slot.is_stalled:
                        slot.start(number, None)
            found = [record.value for record in reading.take(len(expected), 0.0)]
        assert sorted(found, key=lambda value: int(value or b"-1")) == expected
