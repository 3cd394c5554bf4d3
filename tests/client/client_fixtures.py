"""The node of the fixture `cordwood`; where CORDWOOD_TEST_KAFKA=host:port names a Kafka, that takes its place."""

from collections.abc import Mapping

import pytest
from any_cluster import KAFKA

from cordwood import Admin, NewTopic


class KafkaInstead:
    """What the fixture asks of a node."""

    log = ""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def topic(self, name: str, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions=partitions, configs=configs or {})])
            admin.until_topics_led([name])
        return name


if KAFKA is not None:

    @pytest.fixture(scope="session")
    def cordwood_node() -> KafkaInstead:
        assert KAFKA is not None
        return KafkaInstead(KAFKA)
