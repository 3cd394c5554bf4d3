"""The admin client for threads: the async one, method by method."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import cordwood.testing
from cordwood.client.admin.admin import Admin as AsyncAdmin
from cordwood.client.admin.topics import NewTopic
from cordwood.client.blocking import admin as blocking
from cordwood.client.blocking.admin import Admin
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, CannotReachCluster, Closed
from cordwood.client.offsets import OffsetSpec
from cordwood.wire.errors import ErrorCode

GENERATOR = Path(__file__).parents[3] / "tools" / "generate_blocking_admin.py"
# One connects in its constructor; what requests are sent with belongs to an event loop.
ASYNC_ONLY = {"start", "client"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with cordwood.testing.node() as node:
        yield node.bootstrap


def methods(kind: type[Any]) -> dict[str, Callable[..., Any]]:
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


def test_both_have_the_same_methods_with_the_same_signatures() -> None:
    of_async, of_blocking = methods(AsyncAdmin), methods(Admin)
    assert of_async.keys() - ASYNC_ONLY == of_blocking.keys()
    for name, method in of_blocking.items():
        assert inspect.signature(method) == inspect.signature(of_async[name]), name
        assert method.__doc__ is not None, name


def test_the_file_is_up_to_date(tmp_path: Path) -> None:
    fresh = tmp_path / "admin.py"
    subprocess.run([sys.executable, GENERATOR, "--into", fresh], check=True)
    assert fresh.read_text() == Path(blocking.__file__).read_text()


def test_calls_are_made_without_an_event_loop(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topics([NewTopic("blocking", 2)])
        admin.until_topics_led(["blocking"])
        assert len(admin.list_topics()["blocking"].partitions) == 2
        partition = TopicPartition("blocking", 0)
        assert admin.list_offsets({partition: OffsetSpec.LATEST})[partition].offset == 0
        with pytest.raises(BrokerError) as caught:
            admin.create_topics([NewTopic("blocking"), NewTopic("another")])
        assert caught.value.outcomes["blocking"].code == ErrorCode.TOPIC_ALREADY_EXISTS
        assert caught.value.outcomes["another"].partitions == 1
    with pytest.raises(Closed):
        admin.list_topics()


def test_settings_may_have_kafkas_names(bootstrap: str) -> None:
    with Admin({"bootstrap.servers": bootstrap, "client.id": "me"}) as admin:
        assert admin.describe_cluster().brokers


def test_an_unreachable_cluster_is_reported_at_once() -> None:
    with pytest.raises(CannotReachCluster, match=r"127\.0\.0\.1:1"):
        Admin(bootstrap_servers="127.0.0.1:1")
