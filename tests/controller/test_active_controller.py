"""A controller from its first records to the loss of its log, asked as brokers ask it."""

from __future__ import annotations

import asyncio
import errno
from inspect import iscoroutinefunction
from typing import Any

import pytest

from cordwood.controller.handlers import HANDLERS
from cordwood.metadata.bootstrap import read_bootstrap
from cordwood.metadata.controller.error_response import error_response
from cordwood.metadata.features import BOOTSTRAP_LEVELS
from cordwood.metadata.image import BROKER_DEFAULT
from cordwood.metadata.storage.disk_log import MetadataLogConfig
from cordwood.metadata.versions import LATEST_LEVEL
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.codec import encode
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import alter_configs as legacy
from cordwood.wire.messages import incremental_alter_configs as incremental
from cordwood.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest
from cordwood.wire.messages.update_features import UpdateFeaturesRequest
from cordwood.wire.schema import Request
from tests.controller.controllers import DIRECTORY, Stage, on_stage
from tests.metadata.one_voter import OneVoter


def topic(name: str) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[])


async def unfenced(stage: Stage) -> int:
    epoch = await stage.register_broker()
    heartbeat = BrokerHeartbeatRequest(
        broker_id=1, broker_epoch=epoch, current_metadata_offset=stage.loader.image.covers.offset
    )
    assert not (await stage.channel.ask(heartbeat)).is_fenced
    return epoch


def test_the_first_controller_writes_the_initial_metadata_once() -> None:
    offsets: list[int] = []

    async def test(stage: Stage) -> None:
        assert stage.controller.image.features == BOOTSTRAP_LEVELS
        assert stage.controller.image.config(BROKER_DEFAULT) == {"min.insync.replicas": "1"}
        offsets.append(stage.quorum.end_offset)

    async def again(stage: Stage) -> None:
        assert stage.controller.image.features == BOOTSTRAP_LEVELS
        assert stage.quorum.end_offset == offsets[0] + 1, "a leader change, and nothing else"

    on_stage(test, again=again)


def test_the_initial_metadata_is_written_again_if_its_transaction_was_not_ended() -> None:
    def prepare(disk: SimDisk, now_ms: int) -> None:
        log = OneVoter(disk, MetadataLogConfig(), now_ms, DIRECTORY)
        log.append([BeginTransactionRecord(), *read_bootstrap(disk)], LATEST_LEVEL, now_ms)
        log.commit(now_ms)

    async def test(stage: Stage) -> None:
        assert stage.controller.image.features == BOOTSTRAP_LEVELS
        assert not stage.loader.in_transaction

    on_stage(test, prepare=prepare)


def test_answered_changes_are_in_the_image_and_on_disk() -> None:
    async def test(stage: Stage) -> None:
        await unfenced(stage)
        created = await stage.channel.ask(CreateTopicsRequest(topics=[topic("t")], timeout_ms=1_000))
        assert created.topics[0].error_code == ErrorCode.NONE
        assert "t" in stage.loader.image.topics

    async def again(stage: Stage) -> None:
        assert "t" in stage.loader.image.topics

    on_stage(test, again=again)


def test_a_decision_sees_those_before_it_that_are_not_committed() -> None:
    async def test(stage: Stage) -> None:
        epoch = await unfenced(stage)
        request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
        blocks = await asyncio.gather(*(stage.channel.ask(request) for _ in range(3)))
        assert [block.producer_id_start for block in blocks] == [0, 1000, 2000]

    on_stage(test)


def test_a_controller_that_loses_its_log_answers_not_controller() -> None:
    async def test(stage: Stage) -> None:
        await unfenced(stage)
        stage.disk.fail_next("sync", errno.EIO)
        request = CreateTopicsRequest(topics=[topic("t")], timeout_ms=1_000)
        under_way = await stage.channel.ask(request)
        after = await stage.channel.ask(request)
        assert [answer.topics[0].error_code for answer in (under_way, after)] == [ErrorCode.NOT_CONTROLLER] * 2
        assert "t" not in stage.loader.image.topics

    on_stage(test)


_REQUESTS: list[Request[Any]] = [
    CreateTopicsRequest(topics=[topic("t")]),
    CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="t", count=2, assignments=None)]),
    DeleteTopicsRequest(topics=[DeleteTopicState(name="t")]),
    DeleteTopicsRequest(topic_names=["t"]),
    ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="t", partitions=[0])]),
    legacy.AlterConfigsRequest(resources=[legacy.AlterConfigsResource(resource_type=2, resource_name="t")]),
    incremental.IncrementalAlterConfigsRequest(
        resources=[incremental.AlterConfigsResource(resource_type=2, resource_name="t")]
    ),
    UpdateFeaturesRequest(),
    UnregisterBrokerRequest(broker_id=1),
    AllocateProducerIdsRequest(broker_id=1, broker_epoch=1),
]


@pytest.mark.parametrize("request_", _REQUESTS, ids=lambda request: type(request).__name__)
def test_a_request_that_no_controller_takes_is_refused_in_every_version(request_: Request[Any]) -> None:
    for version in type(request_).stable_versions:
        response = error_response(request_, ErrorCode.NOT_CONTROLLER, version)
        assert "NOT_CONTROLLER" in repr(response)
        assert encode(response, version)


def test_every_api_of_a_controller_that_is_decided_has_an_error_response() -> None:
    for handler in HANDLERS:
        if iscoroutinefunction(handler.handle):
            assert error_response(handler.request(), ErrorCode.NOT_CONTROLLER, handler.advertised.high)
