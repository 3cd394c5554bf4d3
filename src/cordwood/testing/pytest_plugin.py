"""The pytest plugin: one node per session, started when the first test uses it, and fresh topics for each test.

def test_orders_are_kept(cordwood_broker):
    topic = cordwood_broker.topic("orders", partitions=3)
    producer = confluent_kafka.Producer({"bootstrap.servers": cordwood_broker.bootstrap})

Nothing of the node is imported before that.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from cordwood.testing.local_cluster import LocalCluster
    from cordwood.testing.local_node import LocalNode

_SHOWN_LOG_LINES = 100


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cordwood", "the node of the fixture `cordwood_broker`")
    group.addoption(
        "--cordwood-subprocess",
        action="store_true",
        default=None,
        help="run it in a separate process",
    )
    group.addoption(
        "--cordwood-set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="one of Kafka's broker settings; may be repeated, and wins over the ini file",
    )
    group.addoption(
        "--cordwood-log-level",
        metavar="LEVEL",
        type=str.upper,
        choices=("DEBUG", "INFO", "WARNING", "ERROR"),
        help="log level: DEBUG, INFO, WARNING or ERROR",
    )
    parser.addini("cordwood_subprocess", "run the node in a separate process", type="bool", default=False)
    parser.addini("cordwood_settings", "Kafka's broker settings for the node, name=value a line", type="linelist")


class Cordwood:
    """The value of the fixture `cordwood_broker`."""

    def __init__(self, node: LocalNode, test_name: str) -> None:
        self.node = node
        self._test_name = test_name

    @property
    def bootstrap(self) -> str:
        """For `bootstrap.servers`."""
        return self.node.bootstrap

    def topic(self, label: str = "", *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Creates a topic for this test only, and returns its name: the test's name, the label and a random part."""
        from cordwood.testing.topics import unique_name

        name = unique_name(f"{self._test_name}-{label}")
        return self.node.topic(name, partitions=partitions, configs=configs)


@pytest.fixture(scope="session")
def cordwood_node(pytestconfig: pytest.Config) -> Iterator[LocalNode]:
    """The node of this session (of each worker, with pytest-xdist), for fixtures that outlive a test."""
    from cordwood.testing import node

    with node(
        settings=_settings(pytestconfig),
        subprocess=pytestconfig.getoption("cordwood_subprocess") or pytestconfig.getini("cordwood_subprocess"),
        log_level=pytestconfig.getoption("cordwood_log_level"),
    ) as running:
        reporter = _LogReporter(running)
        pytestconfig.pluginmanager.register(reporter)
        yield running
        pytestconfig.pluginmanager.unregister(reporter)


@pytest.fixture
def cordwood_broker(cordwood_node: LocalNode, request: pytest.FixtureRequest) -> Cordwood:
    """A running node, and topics that no other test uses."""
    return Cordwood(cordwood_node, request.node.name)


@pytest.fixture(scope="session")
def cordwood_cluster(pytestconfig: pytest.Config) -> Iterator[LocalCluster]:
    """Three brokers, each a process, that the tests of this session share. A test that kills one starts it again."""
    from cordwood.testing import cluster

    with cluster(settings=_settings(pytestconfig), log_level=pytestconfig.getoption("cordwood_log_level")) as running:
        yield running


@pytest.fixture
def cordwood(cordwood_broker: Cordwood) -> Cordwood:
    """Deprecated alias of `cordwood_broker`: it shadows the module `cordwood` in the test."""
    return cordwood_broker


def _settings(config: pytest.Config) -> dict[str, str]:
    settings = {}
    for assignment in (*config.getini("cordwood_settings"), *config.getoption("cordwood_set")):
        name, equals, value = assignment.partition("=")
        if not equals or not name.strip():
            raise pytest.UsageError(f"cordwood: {assignment!r} is not a setting; expected NAME=VALUE")
        settings[name.strip()] = value.strip()
    return settings


class _LogReporter:
    """Shows the node's log with a failed test. Registered once there is a node, so that other sessions pay nothing."""

    def __init__(self, node: LocalNode) -> None:
        self._node = node

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.failed and "cordwood_node" in getattr(item, "fixturenames", ()):
            lines = self._node.log.splitlines()[-_SHOWN_LOG_LINES:]
            if lines:
                report.sections.append(("Log of the Cordwood node", "\n".join(lines)))
        return report
