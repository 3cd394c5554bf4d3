"""A node's counters, for tests that compare two ways to serve requests."""

from cordwood.console.exposition import Exposition
from cordwood.console.request_metrics import RequestMetrics
from tests.broker.simulated import SimulatedNode


def figures(node: SimulatedNode, requests: RequestMetrics) -> list[str]:
    """The metrics of its requests, and of its topics' traffic. All but how long things took: one way may be
    quicker than the other."""
    page = Exposition()
    requests.write(page)
    lines = [line for line in page.encode().decode().splitlines() if "_bucket{" not in line and "_sum{" not in line]
    traffic = node.broker.replicas.traffic
    assert traffic is not None
    return lines + [
        f"{topic} {counted.messages_in} {counted.bytes_in} {counted.messages_out} {counted.bytes_out}"
        for topic, counted in sorted(traffic.items())
    ]
