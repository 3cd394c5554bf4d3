"""A pipeline reports brokers that it cannot reach, and continues when they are back."""

from collections.abc import Callable
from pathlib import Path

from tests.foreign_clients.node_process import NodeProcess
from tests.spark.running_pipeline import COPYING, running
from tests.spark.topic_records import Sent, consumed, produce, topics


def test_missing_brokers_are_reported_until_they_return(
    own_node: Callable[..., NodeProcess], topic: str, tmp_path: Path
) -> None:
    node = own_node()
    source, target = topics(node, topic, "from", "to")
    produce(node, source, [Sent(b"1")])
    with running(tmp_path, COPYING, node.bootstrap, source=source, target=target) as pipeline:
        pipeline.until_said("copy: running", "1 rows in")
        node.kill()
        pipeline.until_said(f"cannot connect to {node.bootstrap}: Connection refused, since ", "; retrying: reading")
        pipeline.until_said("copy: waiting for brokers")
        node.start()
        pipeline.until_said(f"{node.bootstrap} can be reached again, after ")
        produce(node, source, [Sent(b"2")])
        pipeline.until_said("copy: running", "2 rows in")
        assert pipeline.interrupt() == 0, pipeline.said
    assert "Traceback" not in pipeline.said
    assert [record.value for record in consumed(node, target)] == [b"1", b"2"]
