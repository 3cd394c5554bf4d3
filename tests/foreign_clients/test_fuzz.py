"""A node at work, and clients that send what no client should."""

from collections.abc import Callable

import pytest

from tests.foreign_clients import fuzz
from tests.foreign_clients.kafka_client import Address
from tests.foreign_clients.node_process import Nodes

SECONDS = 6.0


def test_others_continue_and_memory_stays_while_a_client_sends_garbage(request: pytest.FixtureRequest) -> None:
    """Longer by hand: `python tests/foreign_clients/fuzz.py --seconds 60`."""
    node: Nodes | None = request.getfixturevalue("node")
    if node is None:
        report = fuzz.fuzz(request.getfixturevalue("address"), SECONDS, seed=1)
    else:
        start: Callable[..., Nodes] = request.getfixturevalue("own_node")
        node = start(fuzz.NODE_SETTINGS)
        report = fuzz.fuzz(Address(node.bootstrap), SECONDS, seed=1, node=node)
    assert report.wrongs == [], str(report)
