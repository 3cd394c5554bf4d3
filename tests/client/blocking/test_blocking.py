"""Life cycle of the clients for threads: creation, close, garbage collection, fork."""

import gc
import subprocess
import sys
import textwrap
import threading

import pytest

from cordwood import (
    BadSetting,
    CannotReachCluster,
    Consumer,
    Producer,
)
from tests.client.any_cluster import AnyCluster
from tests.client.blocking_clients import consumer_of


def test_an_unreachable_cluster_is_reported_by_the_constructor() -> None:
    with pytest.raises(CannotReachCluster, match=r"127\.0\.0\.1:1: Connection refused"):
        Producer(bootstrap_servers="127.0.0.1:1")


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
def test_an_invalid_host_name_is_reported_by_the_constructor(host: str) -> None:
    with pytest.raises(CannotReachCluster, match=f"{host}:9092: not a valid host name"):
        Producer(bootstrap_servers=f"{host}:9092")


def test_invalid_settings_are_reported_by_the_constructor() -> None:
    with pytest.raises(BadSetting, match="is it linger_ms"):
        Producer(bootstrap_servers="here", lingerms=4)  # type: ignore[call-arg]


def test_a_consumer_takes_its_options_as_a_mapping(node: AnyCluster) -> None:
    options = {"bootstrap.servers": node.bootstrap, "group.id": node.name("mapped")}
    with Consumer(options) as consumer:
        consumer.subscribe(["t"])
        assert consumer.subscription() == {"t"}
    with Consumer("t", options=options) as consumer:
        assert consumer.subscription() == {"t"}


def test_no_thread_is_left_when_all_are_closed(node: AnyCluster) -> None:
    before = set(threading.enumerate())
    with Producer(bootstrap_servers=node.bootstrap), consumer_of(node, node.topic()):
        assert len(set(threading.enumerate()) - before) == 2
    assert set(threading.enumerate()) - before == set()


def test_a_client_that_cannot_connect_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    with pytest.raises(CannotReachCluster):
        Consumer(bootstrap_servers="127.0.0.1:1")
    assert set(threading.enumerate()) - before == set()


def test_a_producer_that_is_forgotten_warns_and_still_delivers(node: AnyCluster) -> None:
    topic = node.topic()
    producer = Producer(bootstrap_servers=node.bootstrap, linger_ms=60_000)
    delivery = producer.send(topic, "value")
    forgotten = [producer]
    del producer
    with pytest.warns(ResourceWarning, match="the producer cordwood was not closed"):
        forgotten.clear()
    gc.collect()
    assert delivery.result(30).offset == 0


def in_a_process(code: str, *arguments: str) -> str:
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("without", ["nothing", "uvloop"])
def test_interpreter_exit_delivers_sent_records(node: AnyCluster, without: str) -> None:
    topic = node.topic()
    in_a_process(
        """
        import sys
        sys.modules[sys.argv[3]] = None
        from cordwood import Producer
        producer = Producer(bootstrap_servers=sys.argv[1], linger_ms=60_000)
        producer.send(sys.argv[2], "the last word")
        """,
        # By another name than the node's own, so that there is a connection yet to be made.
        node.bootstrap.replace("127.0.0.1", "localhost"),
        topic,
        without,
    )
    with consumer_of(node, topic) as consumer:
        assert consumer.getone().value == b"the last word"


def test_a_forked_process_is_refused_and_does_not_harm_its_parent(node: AnyCluster) -> None:
    topic = node.topic()
    told = in_a_process(
        """
        import os, sys, warnings
        from cordwood import IllegalState, Producer
        warnings.simplefilter("ignore")
        with Producer(bootstrap_servers=sys.argv[1]) as producer:
            producer.send(sys.argv[2], "of the parent").result(30)
            if os.fork() == 0:
                try:
                    producer.send(sys.argv[2], "of the child")
                except IllegalState as error:
                    print(error, flush=True)
                raise SystemExit
            os.wait()
            print(producer.send(sys.argv[2], "of the parent again").result(30).offset)
        """,
        node.bootstrap,
        topic,
    )
    assert "create one in each process" in told
    assert told.splitlines()[-1] == "1"
