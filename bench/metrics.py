"""Cost of metrics: a node's CPU per one-record Produce, without and with `--metrics-port`.

Two nodes take turns, so that what else the machine does meets both, and the best of several rounds counts. Beside
the requests, the one with metrics is scraped once in each round.
"""

from __future__ import annotations

import tempfile
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from bench.nodes import replay
from bench.nodes.brokers import Cordwood, free_ports
from bench.nodes.processes import cpu_s
from bench.nodes.replay import Load

ROUNDS = 7
REQUESTS = 100_000
PARTITIONS = 4
IN_FLIGHT = 200
# The target for the ratio.
MOST = 1.15


class Measured(Cordwood):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (port,) = free_ports(1)
        self.options = ("--metrics-port", str(port))
        self.url = f"http://127.0.0.1:{port}/metrics"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cordwood-bench-") as folder, ExitStack() as stack:
        plain, measured = Cordwood(Path(folder) / "plain"), Measured(Path(folder) / "measured")
        for broker in (plain, measured):
            stack.callback(broker.stop)
            broker.start()
        spent: dict[Cordwood, list[float]] = {plain: [], measured: []}
        for number in range(ROUNDS):
            for broker, costs in spent.items():
                costs.append(cost_us(broker, f"single-{number}"))
            with urllib.request.urlopen(measured.url) as page:
                counted = page.read().count(b"cordwood_requests_total{")
                assert counted, "it measures"
        best_plain, best_measured = min(spent[plain]), min(spent[measured])
        print(f"one-record Produce, without metrics  {best_plain:6.2f} µs of the node's CPU")
        print(f"one-record Produce, with metrics     {best_measured:6.2f} µs")
        print(f"ratio                                {best_measured / best_plain:6.2f}   (wanted: at most {MOST})")


def cost_us(broker: Cordwood, topic: str) -> float:
    """The node's CPU time per request."""
    load = Load(topic, PARTITIONS, REQUESTS, 1, 100)
    with broker.client() as client:
        client.create_topic(topic, PARTITIONS)
        before = cpu_s(broker.pid)
        replay.produce(broker.address, load, IN_FLIGHT)
        spent = cpu_s(broker.pid) - before
        client.delete_topic(topic)
    return spent / REQUESTS * 1e6
