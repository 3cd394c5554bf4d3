"""The coordinator of a group or of a transactional id is killed: how long Kafka's Java client cannot commit.

Three combined nodes with Kafka's defaults, three replicas. The client commits as fast as it can. Needs a JDK and
Kafka's jars, in `lib` of the directory that KAFKA_HOME names (`tools/fetch_kafka.py` gets them); with --kafka the nodes
are Kafka's, too.

    KAFKA_HOME=DIRECTORY PYTHONPATH=tools python -m bench.coordinator_failover [--times N] [--kafka]
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from chaos.cluster import NODE_IDS, ChaosCluster, until
from chaos.network import Loopback
from cordwood import Admin, NewTopic
from cordwood.wire.hashing import partition_for_id

TIMES = 10
# Per node: longer than Kafka's session, or than a Cordwood cluster needs.
DOWN_S = {False: 3.0, True: 15.0}
TOPIC = "steps"
COORDINATORS = 6
_PROGRAM = Path(__file__).parent / "coordinators" / "CoordinatorSteps.java"
_NS_PER_S = 1e9
_KINDS = {
    "offsets of a classic group": ("classic", "__consumer_offsets"),
    "offsets of a consumer group": ("consumer", "__consumer_offsets"),
    "transactions": ("transactions", "__transaction_state"),
}


class Steps:
    """A Java client that commits, and the times of its commits in seconds of this machine's monotonic clock."""

    def __init__(self, home: Path, bootstrap: str, kind: str, name: str) -> None:
        self.times: list[float] = []
        command = ["java", "-Dlog4j2.level=error", "-cp", f"{home}/lib/*", str(_PROGRAM), bootstrap, kind, TOPIC, name]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.times.append(int(line) / _NS_PER_S)

    def goes_on(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the client ended with status {self._process.returncode}")
        return bool(self.times) and time.monotonic() - self.times[-1] < 0.5

    def longest_pause(self, since: float) -> float:
        before = max(each for each in self.times if each <= since)
        ends = [before, *(each for each in self.times if each > since), time.monotonic()]
        return max(after - earlier for earlier, after in pairwise(ends))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="bench.coordinator_failover", description=__doc__)
    parser.add_argument("--times", type=int, default=TIMES, help=f"kills of each kind (default: {TIMES})")
    parser.add_argument("--kafka", action="store_true", help="Kafka's nodes")
    parser.add_argument("--kind", action="append", choices=[kind for kind, _ in _KINDS.values()])
    options = parser.parse_args(arguments)
    home = os.environ.get("KAFKA_HOME")
    if home is None:
        print("left out: KAFKA_HOME is not set")
        return
    with tempfile.TemporaryDirectory(prefix="coordinators-") as folder:
        kafka = Path(home) if options.kafka else None
        cluster = ChaosCluster(Path(folder), Loopback(NODE_IDS), kafka=kafka)
        try:
            cluster.start()
            with Admin(bootstrap_servers=cluster.bootstrap) as admin:
                admin.create_topics([NewTopic(TOPIC, partitions=1)])
            for title, (kind, internal) in _KINDS.items():
                if not options.kind or kind in options.kind:
                    _measure(cluster, Path(home), title, kind, internal, options)
        finally:
            cluster.close()


def _measure(
    cluster: ChaosCluster, home: Path, title: str, kind: str, internal: str, options: argparse.Namespace
) -> None:
    name = f"{kind}-1"
    pauses_s: list[float] = []
    steps = Steps(home, cluster.bootstrap, kind, name)
    try:
        for _ in range(options.times):
            cluster.await_in_sync()
            until(steps.goes_on, f"{title}: the client commits")
            time.sleep(1 + random.random())
            victim = cluster.nodes[cluster.leader(internal, partition_for_id(name, COORDINATORS))]
            began = time.monotonic()
            victim.kill()
            time.sleep(DOWN_S[options.kafka])
            until(steps.goes_on, f"{title}: the client commits again")
            pauses_s.append(steps.longest_pause(began))
            victim.start()
    finally:
        steps.close()
    each = ", ".join(f"{pause:.2f}" for pause in pauses_s)
    print(
        f"coordinator killed, {title}: {statistics.median(pauses_s):.2f} s without a commit at the median, "
        f"{max(pauses_s):.2f} s at most ({each})",
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
