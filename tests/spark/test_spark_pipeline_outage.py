"""A pipeline tells of brokers that it cannot reach, and leaves nothing open in topics when it is stopped."""

from collections.abc import Callable
from pathlib import Path

from kafka_client import eventually
from node_process import NodeProcess
from running_pipeline import COPYING, PATIENCE_S, running
from topic_records import Sent, consumed, produce, topics

from cordwood import Admin


def test_brokers_that_are_gone_are_told_of_until_they_are_back(
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


def test_a_batch_that_ctrl_c_stops_leaves_no_transaction_open(node: NodeProcess, topic: str, tmp_path: Path) -> None:
    source, target = topics(node, topic, "from", "to")
    produce(node, source, [Sent(b"1")])
    reached = tmp_path / "reached"
    trap = f"task-written=halt:{reached}"
    with (
        Admin(bootstrap_servers=node.bootstrap) as admin,
        running(tmp_path, COPYING, node.bootstrap, source=source, target=target, trap=trap) as pipeline,
    ):
        before = {told.transactional_id for told in admin.list_transactions(states=["Ongoing"])}
        # The task has written all, and has neither ended its transaction nor told the driver of it.
        eventually(reached.exists, within_s=PATIENCE_S)
        (left,) = {told.transactional_id for told in admin.list_transactions(states=["Ongoing"])} - before
        assert pipeline.interrupt() == 0, pipeline.said
        assert left not in {told.transactional_id for told in admin.list_transactions(states=["Ongoing"])}
    assert "Traceback" not in pipeline.said
    with running(tmp_path, COPYING, node.bootstrap, source=source, target=target) as pipeline:
        pipeline.until_said("copy: running", "1 rows in")
        assert pipeline.interrupt() == 0, pipeline.said
    assert [record.value for record in consumed(node, target)] == [b"1"]
