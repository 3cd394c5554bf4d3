"""Open writes of a stopped program are ended when it exits."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from cordwood import Admin
from cordwood.spark.reports import listening
from cordwood.spark.sink.leftovers import Leftovers, report_committed, report_writing
from cordwood.spark.sink.options import read_options
from cordwood.spark.sink.transactions import Scope, batch_job
from tests.foreign_clients.kafka_client import eventually
from tests.foreign_clients.node_process import NodeProcess
from tests.spark.running_pipeline import COPYING, PATIENCE_S, running
from tests.spark.topic_records import Sent, consumed, produce, topics

_JOB = """
import cordwood.spark
spark = cordwood.spark.session(master="local[1]", settings={{"spark.driver.memory": "1g"}})
rows = spark.range(1).selectExpr("cast(id as string) value").write.format("cordwood").mode("append")
rows = rows.option("kafka.bootstrap.servers", {bootstrap!r}).option("testing.at", "task-written=halt:{reached}")
rows.option("topic", {topic!r}).save()
"""


def open_transactions(admin: Admin) -> set[str]:
    return {told.transactional_id for told in admin.list_transactions(states=["Ongoing"])}


def test_a_batch_that_ctrl_c_stops_leaves_no_transaction_open(node: NodeProcess, topic: str, tmp_path: Path) -> None:
    source, target = topics(node, topic, "from", "to")
    produce(node, source, [Sent(b"1")])
    reached = tmp_path / "reached"
    trap = f"task-written=halt:{reached}"
    with (
        Admin(bootstrap_servers=node.bootstrap) as admin,
        running(tmp_path, COPYING, node.bootstrap, source=source, target=target, trap=trap) as pipeline,
    ):
        before = open_transactions(admin)
        # The task has written all, and has neither ended its transaction nor reported it to the driver.
        eventually(reached.exists, within_s=PATIENCE_S)
        (left,) = open_transactions(admin) - before
        assert pipeline.interrupt() == 0, pipeline.said
        assert left not in open_transactions(admin)
    assert "Traceback" not in pipeline.said
    with running(tmp_path, COPYING, node.bootstrap, source=source, target=target) as pipeline:
        pipeline.until_said("copy: running", "1 rows in")
        assert pipeline.interrupt() == 0, pipeline.said
    assert [record.value for record in consumed(node, target)] == [b"1"]


def test_a_job_that_ctrl_c_stops_leaves_no_transaction_open(node: NodeProcess, topic: str, tmp_path: Path) -> None:
    (target,) = topics(node, topic, "to")
    reached = tmp_path / "reached"
    program = _JOB.format(bootstrap=node.bootstrap, reached=reached, topic=target)
    own = ("PYSPARK", "CORDWOOD")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    with (
        Admin(bootstrap_servers=node.bootstrap) as admin,
        subprocess.Popen([sys.executable, "-c", program], env=environment, start_new_session=True) as process,
    ):
        try:
            before = open_transactions(admin)
            eventually(reached.exists, within_s=PATIENCE_S)
            (left,) = open_transactions(admin) - before
            os.killpg(process.pid, signal.SIGINT)
            process.wait(PATIENCE_S)
            assert left not in open_transactions(admin)
        finally:
            process.kill()


def test_transactions_between_report_and_commit_are_not_swept() -> None:
    options = read_options({"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t"}, "a test")
    query, job, done = Scope("query", "run"), batch_job(), batch_job()
    leftovers = Leftovers()
    with listening(leftovers.take):
        for scope in (query, job, done):
            report_writing(scope, options)
        report_committed(done)
    assert leftovers.are_there()
    reason = "cannot connect to 127.0.0.1:1: Connection refused"
    told = "transactions of the stopped batch may still be open and block read_committed consumers until"
    assert list(leftovers.end()) == [
        f"{told} the query is started again, or their timeout (15 min): {reason}",
        f"{told} their timeout (15 min): {reason}",
    ]
