"""Effects of the admin APIs on a node, and where it answers better than Kafka."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest

from cordwood.config.definition import ConfigSource
from cordwood.metadata.controller.decision import MAX_PARTITIONS_PER_REQUEST
from cordwood.net.api import OwnRequest
from cordwood.node import Node
from cordwood.runtime.network import Network
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import encode_response
from cordwood.wire.messages import alter_configs, incremental_alter_configs
from cordwood.wire.messages.alter_configs import AlterConfigsRequest
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.describe_cluster import DescribeClusterRequest
from cordwood.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from cordwood.wire.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest
from tests.broker.admin_node import ask, run, running

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
SET, DELETE = 0, 1
_LOGGER = "cordwood.a_logger_of_the_tests"


class Admin:
    def __init__(self, node: Node, network: Network) -> None:
        self.node = node
        self.network = network

    async def create(self, name: str, partitions: int = 1, *, timeout_ms: int = 30_000) -> ErrorCode:
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=timeout_ms)
        return ErrorCode((await ask(self.node, self.network, request)).topics[0].error_code)

    async def alter(
        self, kind: int, resource: str, name: str, value: str | None, operation: int = SET
    ) -> tuple[ErrorCode, str | None]:
        config = incremental_alter_configs.AlterableConfig(name=name, config_operation=operation, value=value)
        asked = incremental_alter_configs.AlterConfigsResource(
            resource_type=kind, resource_name=resource, configs=[config]
        )
        answer = await ask(self.node, self.network, IncrementalAlterConfigsRequest(resources=[asked]))
        return ErrorCode(answer.responses[0].error_code), answer.responses[0].error_message

    async def described(self, kind: int, resource: str, *, documentation: bool = False) -> dict[str, str | None]:
        asked = DescribeConfigsResource(resource_type=kind, resource_name=resource, configuration_keys=None)
        request = DescribeConfigsRequest(resources=[asked], include_documentation=documentation)
        (result,) = (await ask(self.node, self.network, request)).results
        return {config.name: config.documentation if documentation else config.value for config in result.configs}

    def segment_bytes(self, topic: str) -> int:
        partition = self.node.broker.partition(topic, 0)
        assert partition is not None
        assert partition.log is not None
        return partition.log.config.segment_bytes


@asynccontextmanager
async def admin_of(directory: Path, **settings: str) -> AsyncIterator[Admin]:
    async with running(directory, **settings) as (node, network, _):
        yield Admin(node, network)


# Configuration takes effect


def test_a_topics_configuration_is_in_effect_when_the_answer_comes(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.create("t", 2)
            assert await admin.alter(TOPIC, "t", "segment.bytes", "2000000") == (ErrorCode.NONE, None)
            assert admin.segment_bytes("t") == 2_000_000
            await admin.alter(TOPIC, "t", "segment.bytes", None, DELETE)
            assert admin.segment_bytes("t") == 1 << 30

    run(main())


def test_brokers_defaults_apply_to_topics_without_settings(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.create("t")
            await admin.alter(BROKER, "", "log.segment.bytes", "3000000")
            assert admin.segment_bytes("t") == 3_000_000
            await admin.alter(BROKER, "1", "log.segment.bytes", "4000000")
            assert admin.segment_bytes("t") == 4_000_000

    run(main())


def test_changed_settings_survive_a_restart(tmp_path: Path) -> None:
    async def change() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.create("t")
            await admin.alter(TOPIC, "t", "segment.bytes", "2000000")
            await admin.alter(BROKER, "", "message.max.bytes", "7000000")

    async def look() -> None:
        async with admin_of(tmp_path) as admin:
            assert admin.segment_bytes("t") == 2_000_000
            assert (await admin.described(BROKER, "1"))["message.max.bytes"] == "7000000"

    run(change())
    run(look())


def test_a_new_number_of_partitions_goes_for_new_topics(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path, num_partitions="3") as admin:
            await admin.create("t", -1)
            topic = admin.node.broker.image.topics.get("t")
            assert topic is not None
            assert len(topic.partitions) == 3

    run(main())


def test_a_new_topics_response_has_its_current_configuration(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.create("before")
            await admin.alter(BROKER, "", "log.segment.bytes", "3000000")
            topic = CreatableTopic(name="after", num_partitions=1, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
            (answer,) = (await ask(admin.node, admin.network, request)).topics
            told = {config.name: (config.value, config.config_source) for config in answer.configs or []}
            assert told["segment.bytes"] == ("3000000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG)

    run(main())


def test_a_directory_is_cordoned_by_its_path_as_it_was_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with admin_of(tmp_path, log_dirs="one,two") as admin:
            assert await admin.alter(BROKER, "1", "cordoned.log.dirs", "two") == (ErrorCode.NONE, None)
            directories = admin.node.broker.replicas.directories.directories
            assert [directory.is_cordoned for directory in directories] == [False, True]
            await admin.create("t", 4)
            assert [len(directory.logs) for directory in directories] == [4, 0]

    monkeypatch.chdir(tmp_path)
    run(main())


def test_cordoned_directories_are_reported_again_after_a_restart(tmp_path: Path) -> None:
    async def cordon() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.alter(BROKER, "1", "cordoned.log.dirs", "*")

    async def look() -> None:
        async with admin_of(tmp_path) as admin:
            assert await admin.create("t") is ErrorCode.INVALID_REPLICATION_FACTOR

    run(cordon())
    run(look())


def test_documentation_is_returned_for_every_key(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.create("t")
            texts = await admin.described(TOPIC, "t", documentation=True)
            assert (texts["retention.ms"] or "").startswith("How long records are kept")
            assert all(text for text in texts.values())
            assert all(text for text in (await admin.described(BROKER, "1", documentation=True)).values())

    run(main())


# Loggers


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger(_LOGGER)
    yield made
    made.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("level", "number"),
    [("TRACE", 5), ("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)],
)
def test_a_loggers_level_is_pythons(tmp_path: Path, logger: logging.Logger, level: str, number: int) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            assert await admin.alter(BROKER_LOGGER, "1", _LOGGER, level) == (ErrorCode.NONE, None)
            assert logger.level == number
            assert (await admin.described(BROKER_LOGGER, "1"))[_LOGGER] == level
            await admin.alter(BROKER_LOGGER, "1", _LOGGER, None, DELETE)
            assert logger.level == logging.NOTSET

    run(main())


def test_loggers_are_all_changed_or_none(tmp_path: Path, logger: logging.Logger) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            configs = [
                incremental_alter_configs.AlterableConfig(name=name, config_operation=SET, value="ERROR")
                for name in (_LOGGER, "no.such.logger")
            ]
            asked = incremental_alter_configs.AlterConfigsResource(
                resource_type=BROKER_LOGGER, resource_name="1", configs=configs
            )
            await ask(admin.node, admin.network, IncrementalAlterConfigsRequest(resources=[asked]))
            assert logger.level == logging.NOTSET

    run(main())


# Better than Kafka


def test_a_resource_that_is_named_twice_is_refused_and_the_connection_stays(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.create("t")
            twice = [alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[])] * 2
            answer = await ask(admin.node, admin.network, AlterConfigsRequest(resources=twice))
            assert [response.error_code for response in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2

    run(main())


def test_more_partitions_than_one_request_may_make_are_refused_and_none_is_made(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.create("t")
            topic = CreatePartitionsTopic(name="t", count=MAX_PARTITIONS_PER_REQUEST + 2, assignments=None)
            request = CreatePartitionsRequest(topics=[topic], timeout_ms=30_000)
            answer = await ask(admin.node, admin.network, request)
            assert answer.results[0].error_code == ErrorCode.POLICY_VIOLATION
            made = admin.node.broker.image.topics.get("t")
            assert made is not None
            assert len(made.partitions) == 1

    run(main())


def test_a_topic_takes_writes_when_its_creation_is_answered(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            for number in range(20):
                assert await admin.create(f"t{number}", 5) is ErrorCode.NONE
                leaders = [admin.node.broker.partition(f"t{number}", index) for index in range(5)]
                assert all(leader is not None and leader.is_leader and leader.log is not None for leader in leaders)

    run(main())


# Time that runs out


def test_a_commit_that_times_out_may_still_take_effect(tmp_path: Path) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            broker = admin.node.broker
            # Commits run in a thread, and the only one there is does something else.
            gate = Event()
            threads = ThreadPoolExecutor(1)
            asyncio.get_running_loop().set_default_executor(threads)
            threads.submit(gate.wait, 30)
            topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])
            try:
                answer = await broker.controller.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1))
            finally:
                gate.set()
            assert answer.topics[0].error_code == ErrorCode.REQUEST_TIMED_OUT
            while "t" not in broker.image.topics:
                await asyncio.sleep(0.001)

    run(main())


@pytest.mark.parametrize("version", list(ElectLeadersRequest.stable_versions))
def test_an_election_can_time_out_in_every_version(tmp_path: Path, version: int) -> None:
    async def main() -> None:
        async with admin_of(tmp_path) as admin:
            broker = admin.node.broker
            request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])], timeout_ms=0)
            answer = await broker.controller.ask(request, OwnRequest(version))
            (result,) = answer.replica_election_results[0].partition_result
            assert result.error_code == ErrorCode.REQUEST_TIMED_OUT
            assert encode_response(answer, version, 0)

    run(main())


# Brokers that are forgotten


def test_a_broker_that_was_unregistered_leads_again_after_a_restart(tmp_path: Path) -> None:
    async def forget() -> None:
        async with admin_of(tmp_path) as admin:
            await admin.create("t")
            await ask(admin.node, admin.network, UnregisterBrokerRequest(broker_id=1))
            cluster = await ask(admin.node, admin.network, DescribeClusterRequest())
            assert (cluster.brokers, cluster.controller_id) == ([], -1)

    async def look() -> None:
        async with admin_of(tmp_path) as admin:
            partition = admin.node.broker.partition("t", 0)
            assert partition is not None
            assert partition.is_leader

    run(forget())
    run(look())
