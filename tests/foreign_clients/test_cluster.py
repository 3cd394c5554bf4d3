"""Administrators' queries about a cluster, its partitions and its producers."""

from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.clients_fixtures import NODES
from tests.foreign_clients.kafka_client import Address, Record, Sending, eventually
from tests.foreign_clients.kafka_python_client import KafkaPythonPartition, admin_client
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient, connection_settings

START_MS = 1_600_000_000_000


@pytest.fixture
def kafka_python_admin(address: Address) -> Iterator[Any]:
    admin = admin_client(address)
    yield admin
    admin.close()


@pytest.fixture
def librdkafka_admin(address: Address) -> AdminClient:
    return AdminClient(connection_settings(address))


@pytest.fixture
def written(librdkafka: LibrdkafkaClient, topic: str) -> str:
    """A topic of three partitions; the first has three records, of which the second is the latest in time."""
    librdkafka.create_topic(topic, partitions=3)
    eventually(lambda: librdkafka.leaders(topic), lambda leaders: len(leaders) == 3)
    records = [Record(b"x" * 100, timestamp_ms=START_MS + later_ms) for later_ms in (5, 9, 2)]
    librdkafka.produce(topic, records, how=Sending(idempotent=True))
    return topic


def test_all_clients_see_the_same_cluster(kafka_python_admin: Any, librdkafka_admin: AdminClient) -> None:
    described = kafka_python_admin.describe_cluster()
    cluster = librdkafka_admin.describe_cluster().result()
    assert cluster.cluster_id == described["cluster_id"]
    assert [node.id for node in cluster.nodes] == [broker["broker_id"] for broker in described["brokers"]]
    assert librdkafka_admin.cluster_id() == cluster.cluster_id


# Its constructors are not typed.
Spec: Any = OffsetSpec


@pytest.mark.parametrize(
    ("spec", "offset", "timestamp_ms"),
    [
        (Spec.earliest(), 0, -1),
        (Spec.latest(), 3, -1),
        (Spec.max_timestamp(), 1, START_MS + 9),
        (Spec.for_timestamp(START_MS + 6), 1, START_MS + 9),
        (Spec.for_timestamp(START_MS + 10), -1, -1),
    ],
)
def test_special_offsets_are_resolved(
    librdkafka_admin: AdminClient, written: str, spec: OffsetSpec, offset: int, timestamp_ms: int
) -> None:
    (answer,) = librdkafka_admin.list_offsets({TopicPartition(written, 0): spec}).values()
    assert (answer.result().offset, answer.result().timestamp) == (offset, timestamp_ms)


def test_log_directories_are_described_with_their_replicas(kafka_python_admin: Any, written: str) -> None:
    brokers = kafka_python_admin.describe_log_dirs()
    assert len(brokers) == NODES
    for broker in brokers:
        sizes = {
            (topic["name"], partition["partition_index"]): partition["partition_size"]
            for log_dir in broker["log_dirs"]
            for topic in log_dir["topics"]
            for partition in topic["partitions"]
        }
        # Acknowledged by all replicas in sync.
        assert sizes[written, 0] > 300
        assert sizes[written, 1] == 0
        assert all(log_dir["usable_bytes"] > 0 for log_dir in broker["log_dirs"])


def test_the_quorum_has_a_leader_that_has_everything(kafka_python_admin: Any) -> None:
    (topic,) = kafka_python_admin.describe_metadata_quorum()["topics"]
    (partition,) = topic["partitions"]
    voters = {voter["replica_id"]: voter["log_end_offset"] for voter in partition["current_voters"]}
    assert len(voters) == NODES
    assert topic["topic_name"] == "__cluster_metadata"
    assert voters[partition["leader_id"]] >= partition["high_watermark"] > 0


def test_features_are_finalized_at_levels_that_are_supported(kafka_python_admin: Any) -> None:
    features = kafka_python_admin.describe_features()
    assert features["metadata.version"]["finalized"][1] == 30
    for feature in features.values():
        # At level 0, as kraft.version with voters that are configured, a feature is not finalized.
        if "finalized" not in feature:
            continue
        assert feature["supported"][0] <= feature["finalized"][0]
        assert feature["finalized"][1] <= feature["supported"][1]


def test_partitions_are_described_a_page_at_a_time(kafka_python_admin: Any, written: str) -> None:
    first = kafka_python_admin.describe_topic_partitions([written], response_partition_limit=2)
    second = kafka_python_admin.describe_topic_partitions([written], cursor=first["next_cursor"])
    pages = [
        [partition["partition_index"] for partition in page["topics"][0]["partitions"]] for page in (first, second)
    ]
    assert pages == [[0, 1], [2]]
    assert second["next_cursor"] is None


def test_active_producers_are_described(kafka_python_admin: Any, written: str) -> None:
    place = KafkaPythonPartition(written, 0)
    (producer,) = kafka_python_admin.describe_producers([place])[place].active_producers
    assert producer.last_sequence == 2
    assert producer.last_timestamp == START_MS + 9


def test_a_leader_that_leads_need_not_be_elected(librdkafka_admin: AdminClient, written: str) -> None:
    place = TopicPartition(written, 0)
    (error,) = librdkafka_admin.elect_leaders(ElectionType.PREFERRED, [place]).result().values()
    assert error.code() == ErrorCode.ELECTION_NOT_NEEDED


def test_topics_are_listed_as_configurable_resources(kafka_python_admin: Any, written: str) -> None:
    resources = kafka_python_admin.list_config_resources()
    assert written in resources["topic"]
    assert resources["broker"]


def test_topics_are_described_by_their_id(kafka_python_admin: Any, written: str) -> None:
    (by_name,) = kafka_python_admin.describe_topics([written])
    (by_id,) = kafka_python_admin.describe_topics([UUID(by_name["topic_id"])])
    assert by_id["name"] == written
    assert by_id["topic_id"] == by_name["topic_id"]


def test_a_topic_is_deleted_by_its_id(kafka_python_admin: Any, written: str) -> None:
    (described,) = kafka_python_admin.describe_topics([written])
    kafka_python_admin.delete_topics([UUID(described["topic_id"])])
    eventually(kafka_python_admin.list_topics, lambda names: written not in names)
