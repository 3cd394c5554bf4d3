"""`cordwood.testing.node`: a node in this process or in one of its own."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourceType

import cordwood.testing
from cordwood.testing import NodeError
from cordwood.testing.assembly import TEST_DEFAULTS
from tests.testing.round_trip import PATIENCE_S, consume, produce

TESTING_PAGE = Path(__file__).parent.parent.parent / "docs" / "testing.md"

KINDS = pytest.mark.parametrize("in_subprocess", [False, True], ids=["in process", "subprocess"])


@KINDS
def test_records_go_through_a_node(in_subprocess: bool) -> None:
    with cordwood.testing.node(subprocess=in_subprocess) as node:
        produce(node.bootstrap, "orders", b"one", b"two")
        assert consume(node.bootstrap, "orders", 2) == [b"one", b"two"]


@KINDS
def test_settings_are_kafkas(in_subprocess: bool) -> None:
    with cordwood.testing.node(subprocess=in_subprocess, settings={"num.partitions": "3"}) as node:
        produce(node.bootstrap, "orders", b"one")
        topics = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=PATIENCE_S).topics
        assert len(topics["orders"].partitions) == 3


@KINDS
def test_the_defaults_for_tests_are_those_that_the_page_lists(in_subprocess: bool) -> None:
    rows = re.findall(r"^\| `([a-z.]+)` \| (-?\d+) \| \d+ \|", TESTING_PAGE.read_text(), re.MULTILINE)
    with cordwood.testing.node(subprocess=in_subprocess) as node:
        settings = broker_settings(node.bootstrap)
    assert dict(rows) == TEST_DEFAULTS
    assert {name: settings[name] for name, _ in rows} == dict(rows)


@KINDS
def test_settings_may_be_numbers_and_bools(in_subprocess: bool) -> None:
    given: dict[str, str | int | float | bool] = {"num.partitions": 3, "auto.create.topics.enable": False}
    with cordwood.testing.node(subprocess=in_subprocess, settings=given) as node:
        settings = broker_settings(node.bootstrap)
    assert (settings["num.partitions"], settings["auto.create.topics.enable"]) == ("3", "false")


def test_settings_win_over_the_defaults_for_tests() -> None:
    with cordwood.testing.node(settings={"group.initial.rebalance.delay.ms": "50"}) as node:
        assert broker_settings(node.bootstrap)["group.initial.rebalance.delay.ms"] == "50"


@KINDS
def test_a_bad_setting_is_named_by_the_error(in_subprocess: bool) -> None:
    node = cordwood.testing.node(subprocess=in_subprocess, settings={"num.partitons": "3"})
    with pytest.raises(NodeError, match=r"num\.partitons.*did you mean num\.partitions"), node:
        pass


@KINDS
def test_the_directory_goes_with_the_node(in_subprocess: bool) -> None:
    with cordwood.testing.node(subprocess=in_subprocess) as node:
        folder = node.data
        assert (folder / "meta.properties").exists()
    assert not folder.parent.exists()


@KINDS
def test_a_directory_that_was_given_stays(in_subprocess: bool, tmp_path: Path) -> None:
    for number in range(2):
        with cordwood.testing.node(subprocess=in_subprocess, data=tmp_path) as node:
            produce(node.bootstrap, "orders", f"{number}".encode())
            assert len(consume(node.bootstrap, "orders", number + 1)) == number + 1
    assert (tmp_path / "orders-0").is_dir()


@KINDS
def test_a_restart_keeps_data_and_address(in_subprocess: bool) -> None:
    with cordwood.testing.node(subprocess=in_subprocess) as node:
        before = node.bootstrap
        produce(node.bootstrap, "orders", b"one")
        node.restart()
        assert node.bootstrap == before
        assert consume(node.bootstrap, "orders", 1) == [b"one"]


def test_a_killed_node_comes_back_with_its_records() -> None:
    with cordwood.testing.node(subprocess=True) as node:
        produce(node.bootstrap, "orders", b"one")
        node.kill()
        node.start()
        assert consume(node.bootstrap, "orders", 1) == [b"one"]


def test_a_node_in_this_process_cannot_be_killed() -> None:
    with cordwood.testing.node() as node, pytest.raises(NodeError, match="subprocess=True"):
        node.kill()


@KINDS
def test_a_stopped_node_says_that_it_does_not_run(in_subprocess: bool) -> None:
    with cordwood.testing.node(subprocess=in_subprocess) as node:
        node.stop()
        with pytest.raises(NodeError, match="not running"):
            _ = node.bootstrap


@KINDS
def test_a_directory_in_use_is_an_error(in_subprocess: bool) -> None:
    with (
        cordwood.testing.node() as first,
        pytest.raises(NodeError, match="in use by another process"),
        cordwood.testing.node(subprocess=in_subprocess, data=first.data),
    ):
        pass


@KINDS
def test_a_start_that_failed_leaves_the_directory_free(in_subprocess: bool, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = cordwood.testing.node(subprocess=in_subprocess, data=tmp_path, port=port)
        with pytest.raises(NodeError, match=f"cannot listen on 127.0.0.1:{port}"):
            node.start()
    node.start()
    assert node.bootstrap == f"127.0.0.1:{port}"
    node.close()


@KINDS
def test_the_nodes_log_can_be_read(in_subprocess: bool) -> None:
    with cordwood.testing.node(subprocess=in_subprocess, log_level="INFO") as node:
        assert "Opened 0 partitions" in node.log
    assert "Opened 0 partitions" in node.log


def test_two_nodes_in_one_process_have_their_own_logs() -> None:
    with cordwood.testing.node(log_level="INFO") as first, cordwood.testing.node(log_level="INFO") as second:
        assert str(first.data) in first.log
        assert str(second.data) not in first.log


def test_an_unexpected_exit_is_reported_when_the_node_is_stopped() -> None:
    node = cordwood.testing.node(subprocess=True)
    with pytest.raises(NodeError, match="exit status -9"), node:
        os.kill(node.pid, signal.SIGKILL)


def test_a_subprocess_ends_with_the_process_that_started_it() -> None:
    script = "import cordwood.testing as t; n = t.node(subprocess=True); n.start(); print(n.pid, flush=True); input()"
    parent = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with parent:
        assert parent.stdout is not None
        node_pid = int(parent.stdout.readline())
        watch = os.pidfd_open(node_pid)
        parent.kill()
    try:
        # Readable once the process is gone.
        async def until_gone() -> None:
            gone = asyncio.Event()
            asyncio.get_running_loop().add_reader(watch, gone.set)
            await asyncio.wait_for(gone.wait(), PATIENCE_S)

        asyncio.run(until_gone())
    finally:
        os.close(watch)


def test_an_environment_for_other_nodes_does_not_reach_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORDWOOD_NUM_PARTITONS", "no such setting")
    with cordwood.testing.node(subprocess=True) as node:
        assert node.bootstrap


@KINDS
def test_async_with_leaves_the_loop_free(in_subprocess: bool) -> None:
    async def main() -> None:
        async with cordwood.testing.node(subprocess=in_subprocess) as node:
            await asyncio.to_thread(produce, node.bootstrap, "orders", b"one")

    asyncio.run(main())


def test_a_requested_topic_exists() -> None:
    with cordwood.testing.node(settings={"auto.create.topics.enable": "false"}) as node:
        topic = node.topic(partitions=2, configs={"retention.ms": "1000"})
        assert topic != node.topic()
        assert node.topic("orders") == "orders"
        produce(node.bootstrap, topic, b"one")
        topics = AdminClient({"bootstrap.servers": node.bootstrap}).list_topics(timeout=PATIENCE_S).topics
        assert len(topics[topic].partitions) == 2


def test_a_topic_that_cannot_be_created_is_an_error_with_the_reason() -> None:
    with cordwood.testing.node() as node, pytest.raises(NodeError, match=r"a b.*INVALID_TOPIC_EXCEPTION"):
        node.topic("a b")


def test_topics_can_be_created_from_a_coroutine() -> None:
    async def main() -> None:
        async with cordwood.testing.node() as node:
            assert node.topic("orders") == "orders"

    asyncio.run(main())


def broker_settings(bootstrap: str) -> dict[str, str | None]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    (answer,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
    return {name: setting.value for name, setting in answer.result(PATIENCE_S).items()}
