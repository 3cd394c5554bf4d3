"""Decisions of Kafka's controller, repeated: each of its batches from the preceding image and the request."""

import random
from collections.abc import Sequence

import pytest

from cordwood.metadata.bootstrap import activation_records, format_directory, read_bootstrap
from cordwood.metadata.controller.brokers import broker_heartbeat, register_broker, register_controller
from cordwood.metadata.controller.configs import incremental_alter_configs
from cordwood.metadata.controller.decision import ConfigSchema, ControllerDefaults
from cordwood.metadata.controller.producer_ids import allocate_producer_ids
from cordwood.metadata.controller.topics import create_partitions, create_topics, delete_topics
from cordwood.metadata.image import METADATA_VERSION, MetadataImage
from cordwood.metadata.loader import Loader
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from cordwood.wire.messages import controller_registration
from cordwood.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from cordwood.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from cordwood.wire.messages.metadata_records.begin_transaction_record import BeginTransactionRecord
from cordwood.wire.messages.metadata_records.config_record import ConfigRecord
from cordwood.wire.messages.metadata_records.end_transaction_record import EndTransactionRecord
from cordwood.wire.messages.metadata_records.feature_level_record import FeatureLevelRecord
from cordwood.wire.messages.metadata_records.no_op_record import NoOpRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.producer_ids_record import ProducerIdsRecord
from cordwood.wire.messages.metadata_records.register_broker_record import RegisterBrokerRecord
from cordwood.wire.messages.metadata_records.register_controller_record import RegisterControllerRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.schema import MetadataRecord
from tests.metadata.cluster import response_of
from tests.metadata.kafka_metadata import KAFKA_LEVELS, batches

DEFAULTS = ControllerDefaults()


def before(offset: int) -> tuple[MetadataImage, list[MetadataRecord]]:
    """The image, and what Kafka wrote next (its heartbeats of the log left out)."""
    loader = Loader()
    for batch in batches():
        if batch.base_offset == offset:
            return loader.image, written(batch)
        loader.load(batch)
    raise AssertionError(f"no batch begins at offset {offset}")


def written(batch: MetadataBatch) -> list[MetadataRecord]:
    return [record for record in batch.records if not isinstance(record, NoOpRecord)]


def in_any_order(records: Sequence[MetadataRecord]) -> list[str]:
    """Partitions come in the order of a hash map."""
    return sorted(map(repr, records))


def test_the_first_records_of_a_cluster() -> None:
    _, expected = before(3)

    disk = SimDisk(random.Random(1))
    format_directory(disk, None, now_ms=0, levels=KAFKA_LEVELS)
    bootstrap = read_bootstrap(disk)
    assert activation_records(bootstrap, min_insync_replicas=1) == expected


@pytest.mark.parametrize(("level", "is_transaction"), [(7, False), (12, False), (13, True), (30, True)])
def test_clusters_of_before_3_6_begin_without_a_transaction(level: int, *, is_transaction: bool) -> None:
    bootstrap = [FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)]
    records = activation_records(bootstrap, min_insync_replicas=1)
    kinds = [type(record) for record in records]
    inner = [FeatureLevelRecord]
    assert kinds == ([BeginTransactionRecord, *inner, EndTransactionRecord] if is_transaction else inner)


def test_a_controller_registers() -> None:
    image, expected = before(171)
    registered = expected[0]
    assert isinstance(registered, RegisterControllerRecord)
    request = controller_registration.ControllerRegistrationRequest(
        controller_id=1,
        incarnation_id=registered.incarnation_id,
        listeners=[
            controller_registration.Listener(name=end.name, host=end.host, port=end.port, security_protocol=0)
            for end in registered.end_points
        ],
        features=[
            controller_registration.Feature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in registered.features
        ],
    )
    assert register_controller(image, request).records == expected


def test_a_broker_that_stopped_cleanly_registers_again() -> None:
    image, expected = before(172)
    registered = expected[0]
    assert isinstance(registered, RegisterBrokerRecord)
    request = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id="c",
        incarnation_id=registered.incarnation_id,
        listeners=[
            Listener(name=end.name, host=end.host, port=end.port, security_protocol=0) for end in registered.end_points
        ],
        features=[
            Feature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in registered.features
        ],
        rack=None,
        log_dirs=registered.log_dirs,
        previous_broker_epoch=14,
    )
    decision = register_broker(image, request, DEFAULTS, cluster_id="c", next_offset=172)
    assert decision.records == expected
    assert response_of(decision).broker_epoch == 172


def heartbeat(offset: int, epoch: int, **fields: object) -> None:
    image, expected = before(offset)
    request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=epoch, current_metadata_offset=offset - 1)
    for name, value in fields.items():
        setattr(request, name, value)
    assert in_any_order(broker_heartbeat(image, request, DEFAULTS).records) == in_any_order(expected)


def test_a_broker_reports_its_cordoned_directories() -> None:
    heartbeat(15, 14, want_fence=True, cordoned_log_dirs=[])
    heartbeat(174, 172, want_fence=True, cordoned_log_dirs=[])


def test_an_unfenced_broker_leads_the_partitions_that_waited_for_it() -> None:
    heartbeat(17, 14)
    heartbeat(176, 172)


def test_a_broker_in_controlled_shutdown_hands_over_its_partitions_and_is_fenced() -> None:
    for begin, end, epoch in ((138, 169, 14), (257, 288, 172)):
        heartbeat(begin, epoch, want_shut_down=True)
        heartbeat(end, epoch, want_shut_down=True)


def creation(image: MetadataImage, expected: list[MetadataRecord]) -> list[MetadataRecord]:
    """CreateTopics as it must have been, decided by us, with Kafka's topic ids."""
    topics: list[CreatableTopic] = []
    ids = []
    for record in expected:
        match record:
            case TopicRecord():
                topics.append(CreatableTopic(name=record.name, num_partitions=0, replication_factor=1))
                ids.append(record.topic_id)
            case ConfigRecord():
                topics[-1].configs.append(CreatableTopicConfig(name=record.name, value=record.value))
            case PartitionRecord():
                topics[-1].num_partitions += 1
    request = CreateTopicsRequest(topics=topics)
    decided = list(create_topics(image, request, SeededRandom(1), DEFAULTS, ConfigSchema()).records)
    current = b""
    remaining = list(ids)
    for record in decided:
        if isinstance(record, TopicRecord):
            current = remaining.pop(0)
        if isinstance(record, TopicRecord | PartitionRecord):
            record.topic_id = current
    return decided


def test_topics_are_created_with_their_configuration() -> None:
    for offset in (20, 112, 124):
        image, expected = before(offset)
        assert creation(image, expected) == expected


def test_a_topic_is_deleted() -> None:
    image, expected = before(216)
    removed = expected[0]
    assert isinstance(removed, RemoveTopicRecord)
    by_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=removed.topic_id)])
    by_name = DeleteTopicsRequest(topics=[DeleteTopicState(name="doomed")])
    assert delete_topics(image, by_id).records == delete_topics(image, by_name).records == expected


def test_partitions_are_added() -> None:
    image, expected = before(217)
    request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="empty", count=4, assignments=None)])
    assert create_partitions(image, request, SeededRandom(1)).records == expected


def test_configurations_are_altered() -> None:
    for offset in (219, 220):
        image, expected = before(offset)
        resources: dict[tuple[int, str], AlterConfigsResource] = {}
        for record in expected:
            assert isinstance(record, ConfigRecord)
            resource = resources.setdefault(
                (record.resource_type, record.resource_name),
                AlterConfigsResource(resource_type=record.resource_type, resource_name=record.resource_name),
            )
            resource.configs.append(AlterableConfig(name=record.name, config_operation=0, value=record.value))
        request = IncrementalAlterConfigsRequest(resources=list(resources.values()))
        assert incremental_alter_configs(image, request, ConfigSchema()).records == expected


def test_producer_ids_are_allocated() -> None:
    for offset, epoch, first in ((109, 14, 0), (209, 172, 1000)):
        image, expected = before(offset)
        assert isinstance(expected[0], ProducerIdsRecord)
        decision = allocate_producer_ids(image, AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
        assert decision.records == expected
        assert (response_of(decision).producer_id_start, response_of(decision).producer_id_len) == (first, 1000)
