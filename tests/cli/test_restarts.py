"""The command continues when its node is killed and comes back."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.cli_runner import Cli


class Node:
    """`cordwood up` on a port that stays the same."""

    def __init__(self, data: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._data = data
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "cordwood", "up", "--port", str(self.port), "--data", str(self._data)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert "is ready" in self._process.stdout.readline()

    def kill(self) -> None:
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    if os.environ.get("CORDWOOD_TEST_KAFKA") is not None:
        pytest.skip("needs a node of its own; Kafka stands in for the node")
    node = Node(tmp_path / "data")
    node.start()
    yield node
    node.kill()


def test_following_continues_after_the_node_was_killed(node: Node, topic: str) -> None:
    cli = Cli(f"127.0.0.1:{node.port}")
    cli("produce", topic, "--create", stdin=b"before\n")
    with cli.start("consume", topic, "-f") as reader:
        assert reader.read_line() == b"before\n"
        node.kill()
        node.start()
        cli("produce", topic, stdin=b"after\n")
        assert reader.read_line() == b"after\n"
        reader.interrupt()
        assert reader.ended() == (130, "")


def test_records_written_during_an_outage_arrive_once_and_in_order(node: Node, topic: str) -> None:
    cli = Cli(f"127.0.0.1:{node.port}")
    cli("topic", "create", topic)
    with cli.start("consume", topic, "-f") as reader, cli.start("produce", topic) as writer:
        writer.write(b"0\n")
        assert reader.read_line() == b"0\n"
        node.kill()
        for number in range(1, 1000):
            writer.write(b"%d\n" % number)
        node.start()
        writer.stdin.close()
        assert writer.ended() == (0, "")
    assert cli("consume", topic).lines == [str(number) for number in range(1000)]


def test_a_node_that_stays_unreachable_ends_the_command_with_an_error(node: Node, topic: str) -> None:
    cli = Cli(f"127.0.0.1:{node.port}")
    cli("topic", "create", topic)
    with cli.start("consume", topic, "-f") as reader, cli.start("produce", topic, "--timeout", "1") as writer:
        writer.write(b"a\n")
        assert reader.read_line() == b"a\n"
        node.kill()
        writer.write(b"b\n")
        writer.stdin.close()
        code, told = writer.ended()
        error, count = told.splitlines()
        assert code == 1
        assert "gave up after 1 s" in error
        # Whether the node has appended the record before it was killed cannot be known.
        assert count == f"cordwood: ended early, with at least 1 record delivered to {topic}"
