"""Metrics of a node's requests, for tests that compare two ways to serve them."""

from simulated import SimulatedNode

from cordwood.broker.dispatch import BrokerDispatch
from cordwood.console.exposition import Exposition
from cordwood.console.request_metrics import RequestMetrics


class Measured:
    """What is counted of the requests to a node, and what goes into and out of its topics."""

    def __init__(self, node: SimulatedNode, dispatch: BrokerDispatch) -> None:
        self._node = node
        self._requests = RequestMetrics(node.world.clock.monotonic)
        dispatch.measure(self._requests)
        node.broker.replicas.count_traffic()

    def figures(self) -> list[str]:
        """All but how long things took: one way may be quicker than the other."""
        page = Exposition()
        self._requests.write(page)
        lines = [line for line in page.encode().decode().splitlines() if "_bucket{" not in line and "_sum{" not in line]
        traffic = self._node.broker.replicas.traffic
        assert traffic is not None
        return lines + [
            f"{topic} {counted.messages_in} {counted.bytes_in} {counted.messages_out} {counted.bytes_out}"
            for topic, counted in sorted(traffic.items())
        ]
