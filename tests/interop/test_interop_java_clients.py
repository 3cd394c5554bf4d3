"""Kafka's own clients on three Cordwood nodes that are killed one after the other, the active controller first: an
idempotent producer, and a group member that copies its records in transactions, a part of which it aborts."""

from __future__ import annotations

import json
import signal
import subprocess
from collections import Counter
from pathlib import Path

from cordwood import Admin, Consumer, NewTopic, TopicPartition
from tests.interop.cluster_state import await_in_sync
from tests.interop.mixed_cluster import Kind, MixedCluster, StartCluster
from tests.interop.waiting import until

_PARTITIONS = 3
_PER_SECOND = 200
_PER_TRANSACTION = 20
# Records that are written, and copied, while a node is down.
_WITHOUT = 200
_PATIENCE_S = 180.0
# The tool's own default is not to retry.
_PRODUCER = "enable.idempotence=true\nretries=2147483647\n"


class JavaTool:
    """A tool of Kafka's that runs until it is told to end."""

    def __init__(self, cluster: MixedCluster, name: str, *arguments: str) -> None:
        self._output = cluster.root / f"{name}.json"
        with self._output.open("ab") as output, (cluster.root / f"{name}.err").open("ab") as errors:
            command = cluster.kafka_command(f"org.apache.kafka.tools.{name}", *arguments)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)

    def said(self, event: str) -> list[dict[str, str]]:
        """Its lines of this kind, which are JSON. A line that is being written is left for later."""
        whole = self._output.read_text().rpartition("\n")[0].splitlines()
        lines = [json.loads(line) for line in whole if line.startswith("{")]
        return [line for line in lines if line.get("name") == event]

    @property
    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self.wait()

    def wait(self) -> int:
        return self._process.wait(_PATIENCE_S)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def test_each_record_is_copied_once_while_nodes_are_killed(start_cluster: StartCluster, tmp_path: Path) -> None:
    cluster = start_cluster("CCC", format_with=Kind.CORDWOOD)
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topics([NewTopic(topic, _PARTITIONS, 3) for topic in ("in", "out")])
        controller = admin.describe_metadata_quorum().leader
    settings = tmp_path / "producer.properties"
    settings.write_text(_PRODUCER)
    producer = JavaTool(
        cluster,
        "VerifiableProducer",
        *("--bootstrap-server", cluster.bootstrap, "--topic", "in", "--throughput", str(_PER_SECOND)),
        *("--command-config", str(settings)),
    )
    copier = _copier(cluster, "--enable-random-aborts", "--max-messages", str(10**9))
    try:
        acked = copied = 0

        def goes_on() -> bool:
            assert producer.runs
            assert copier.runs
            return _count(cluster, "in") >= acked + _WITHOUT and _count(cluster, "out") >= copied + _WITHOUT

        until(goes_on, timeout_s=_PATIENCE_S)
        for victim in sorted(cluster.nodes, key=lambda node_id: node_id != controller):
            cluster.kill(victim)
            acked, copied = _count(cluster, "in"), _count(cluster, "out")
            until(goes_on, timeout_s=_PATIENCE_S)
            cluster.start(victim)
            await_in_sync(cluster)
        producer.end()
        copier.end()
        # To the end of what is there now.
        last = _copier(cluster)
        assert last.wait() == 0
    finally:
        producer.kill()
        copier.kill()
    assert producer.said("producer_send_error") == []
    acknowledged = {line["value"] for line in producer.said("producer_send_success")}
    written = Counter(_values(cluster, "in"))
    assert len(acknowledged) > len(cluster.nodes) * _WITHOUT
    assert set(written.values()) == {1}
    assert acknowledged <= written.keys()
    assert Counter(_values(cluster, "out")) == written


def _copier(cluster: MixedCluster, *arguments: str) -> JavaTool:
    return JavaTool(
        cluster,
        "TransactionalMessageCopier",
        *("--broker-list", cluster.bootstrap, "--group-mode", "--use-group-metadata"),
        *("--input-topic", "in", "--input-partition", "-1", "--output-topic", "out"),
        *("--consumer-group", "copiers", "--transactional-id", "copier"),
        *("--transaction-size", str(_PER_TRANSACTION), *arguments),
    )


def _assigned(topic: str) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for index in range(_PARTITIONS)]


def _reader(cluster: MixedCluster) -> Consumer:
    return Consumer(
        bootstrap_servers=cluster.bootstrap,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )


def _count(cluster: MixedCluster, topic: str) -> int:
    """The sum of the end offsets, markers and aborted records included."""
    with _reader(cluster) as consumer:
        return sum(consumer.end_offsets(_assigned(topic)).values())


def _values(cluster: MixedCluster, topic: str) -> list[str]:
    with _reader(cluster) as consumer:
        consumer.assign(_assigned(topic))
        ends = consumer.end_offsets(_assigned(topic))
        found: list[str] = []
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            for records in consumer.getmany(timeout_ms=200).values():
                found += [record.value.decode() for record in records]
        return found
