"""`cordwood registry` over a cluster of Apache Kafka alone."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from cordwood.registry import RegistryClient, RegistryRefused
from tests.interop.mixed_cluster import StartCluster

SUBJECTS = 5


class RegistryProcess:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.url = process.stdout.readline().split()[-1]
        self.client = RegistryClient(self.url, cached=0)

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@contextmanager
def registry(bootstrap: str) -> Iterator[RegistryProcess]:
    command = [sys.executable, "-m", "cordwood", "registry", "--bootstrap", bootstrap, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield RegistryProcess(process)
        finally:
            process.kill()


def schema(number: int) -> str:
    fields = [{"name": f"f{each}", "type": "int", "default": 0} for each in range(number)]
    return json.dumps({"type": "record", "name": "Order", "fields": fields})


def test_registries_over_kafka_fence_each_other_and_outlive_each_other(start_cluster: StartCluster) -> None:
    cluster = start_cluster("K")
    with ExitStack() as stack:
        first, second = (stack.enter_context(registry(cluster.bootstrap)) for _ in range(2))
        ids: dict[int, set[int]] = {}
        for number in range(SUBJECTS):
            for each in (first, second):
                ids.setdefault(number, set()).add(each.client.register("orders-value", schema(number)).id)
        assert all(len(found) == 1 for found in ids.values())

        # The writer stands still: a write that is forwarded to it ends in time, and the next one is taken over. When it
        # wakes up it is a writer no more.
        first.send(signal.SIGSTOP)
        with pytest.raises(RegistryRefused, match="no registry took it"):
            second.client.register("orders-value", schema(SUBJECTS))
        later = second.client.register("orders-value", schema(SUBJECTS))
        first.send(signal.SIGCONT)
        last = first.client.register("orders-value", schema(SUBJECTS + 1))
        assert (later.version, last.version) == (SUBJECTS + 1, SUBJECTS + 2)
        assert last.id == later.id + 1

        second.send(signal.SIGKILL)
        assert first.client.register("orders-value", schema(SUBJECTS + 2)).version == SUBJECTS + 3
        first.send(signal.SIGTERM)
        assert first.process.wait(60) == 0

        cluster.kill(1)
        cluster.start(1)
        third = stack.enter_context(registry(cluster.bootstrap))
        assert third.client.ask("GET", "/subjects/orders-value/versions") == list(range(1, SUBJECTS + 4))
        for number, (id_,) in ids.items():
            assert json.loads(third.client.ask("GET", f"/schemas/ids/{id_}")["schema"]) == json.loads(schema(number))
    printed = cluster.kafka(
        "org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", cluster.bootstrap,
        "--topic", "_schemas", "--from-beginning", "--timeout-ms", "10000",
    )  # fmt: skip
    stored = [json.loads(line) for line in printed.splitlines() if line.startswith('{"subject"')]
    assert [each["version"] for each in stored] == list(range(1, SUBJECTS + 4))


def test_a_topic_of_kafkas_that_is_not_compacted_is_refused_and_repaired(start_cluster: StartCluster) -> None:
    cluster = start_cluster("K")
    cluster.cordwood("topic", "create", "_schemas", "--bootstrap", cluster.bootstrap)
    command = [sys.executable, "-m", "cordwood", "registry", "--bootstrap", cluster.bootstrap, "--port", "0"]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "cleanup.policy=delete" in refused.stderr
    repair = refused.stderr.rpartition("cordwood ")[2].split()
    cluster.cordwood(*repair, "--bootstrap", cluster.bootstrap)
    with registry(cluster.bootstrap) as started:
        assert started.client.register("orders-value", '"int"').version == 1
