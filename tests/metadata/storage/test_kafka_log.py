"""Kafka's own metadata log and snapshots, replayed: one image, equal to the one reported by Kafka's broker."""

import pytest

from cordwood.metadata.image import (
    BROKER_DEFAULT,
    ConfigResource,
    MetadataImage,
    ResourceType,
    ScramUser,
    broker_resource,
)
from cordwood.metadata.image_records import image_records
from cordwood.metadata.loader import Loader
from cordwood.metadata.storage.disk_log import METADATA_TOPIC_ID
from cordwood.metadata.storage.snapshot import (
    QuorumVoters,
    decode_snapshot,
    encode_snapshot,
    parse_snapshot_name,
    snapshot_name,
)
from cordwood.metadata.versions import record_version
from cordwood.raft.election_state import ElectionState
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.frames import decode_metadata_record
from cordwood.wire.primitives import uuid_from_text, uuid_text
from cordwood.wire.records import decode_batch, encode_batch
from tests.metadata.kafka_metadata import SNAPSHOT_NAMES, batches, files, snapshot, stated, stated_metadata

# The live broker answered before its controlled shutdown began.
SHUTDOWN_OFFSET = 257


def image_at(offset: int) -> MetadataImage:
    loader = Loader()
    for batch in batches():
        if batch.base_offset < offset:
            loader.load(batch)
    return loader.image


@pytest.mark.parametrize("name", SNAPSHOT_NAMES)
def test_the_log_up_to_a_snapshot_and_the_snapshot_make_the_same_image(name: str) -> None:
    snapshot_id = parse_snapshot_name(name)
    assert snapshot_id is not None
    assert Loader.of_snapshot(snapshot_id, snapshot(name)).image == image_at(snapshot_id.offset)


@pytest.mark.parametrize("name", SNAPSHOT_NAMES)
def test_a_snapshot_and_the_log_after_it_make_the_image_of_the_whole_log(name: str) -> None:
    snapshot_id = parse_snapshot_name(name)
    assert snapshot_id is not None
    loader = Loader.of_snapshot(snapshot_id, snapshot(name))
    for batch in batches():
        if batch.base_offset >= snapshot_id.offset:
            loader.load(batch)
    assert loader.image == image_at(10**9)


def test_topics_and_features_are_those_of_the_live_broker() -> None:
    image = image_at(SHUTDOWN_OFFSET)
    live = stated()["live"]
    assert {topic.name: (uuid_text(topic.id), len(topic.partitions)) for topic in image.topics} == {
        name: (topic["id"], topic["partitions"]) for name, topic in live["topics"].items()
    }
    # kraft.version is the quorum's, in control records.
    assert {**image.features, "kraft.version": snapshot(SNAPSHOT_NAMES[1]).quorum.kraft_version} == live[
        "finalizedFeatures"
    ]
    assert all(
        partition.leader == 1 and partition.isr == (1,)
        for topic in image.topics
        for partition in topic.partitions.values()
    )


def test_configurations_are_those_of_the_live_broker() -> None:
    image = image_at(SHUTDOWN_OFFSET)
    types = {"TOPIC": ResourceType.TOPIC, "BROKER": ResourceType.BROKER, "GROUP": ResourceType.GROUP}
    sources = {
        "TOPIC": "DYNAMIC_TOPIC_CONFIG",
        "BROKER": "DYNAMIC_BROKER_CONFIG",
        "GROUP": "DYNAMIC_GROUP_CONFIG",
    }
    compared = 0
    for described in stated()["live"]["describeConfigs"]:
        kind, name = described["type"], described["name"]
        if kind not in types:
            continue
        source = sources[kind] if name else "DYNAMIC_DEFAULT_BROKER_CONFIG"
        told = {entry["name"]: entry["value"] for entry in described["entries"] if entry["source"] == source}
        assert image.config(ConfigResource(types[kind], name)) == told
        compared += len(told)
    assert compared > 10
    assert image.config(BROKER_DEFAULT) == {"min.insync.replicas": "1", "log.cleaner.threads": "2"}
    assert image.config(broker_resource(1)) == {"message.max.bytes": "1500000"}


def test_quotas_credentials_and_producer_ids_round_trip() -> None:
    image = image_at(SHUTDOWN_OFFSET)
    assert image.client_quotas == {
        (("user", "alice"),): {"producer_byte_rate": 1048576.0},
        (("client-id", None),): {"request_percentage": 75.5},
    }
    assert image.scram[ScramUser("alice", 1)].iterations == 4096
    assert image.next_producer_id == 2000


def test_the_stopped_broker_is_fenced_and_its_partitions_wait_for_it() -> None:
    image = image_at(10**9)
    assert image.brokers[1].fenced
    assert image.brokers[1].in_controlled_shutdown
    for topic in image.topics:
        for partition in topic.partitions.values():
            assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (1,), (1,))


def test_every_record_is_written_in_the_version_that_kafka_writes() -> None:
    data = files()["00000000000000000000.log"]
    versions = set()
    for position, header in batch_headers(data):
        if not header.is_control:
            for stored in decode_batch(data, position):
                record, version = decode_metadata_record(stored.value or b"")
                versions.add((type(record).__name__, version))
                assert record_version(record, 30) == version, record
    assert len(versions) > 15


def test_an_image_written_as_a_snapshot_loads_as_the_same_image() -> None:
    image = image_at(SHUTDOWN_OFFSET)
    data = encode_snapshot(
        image_records(image),
        metadata_version=image.metadata_version,
        epoch=image.covers.epoch,
        last_timestamp_ms=image.last_timestamp_ms,
        now_ms=1,
        max_batch_bytes=700,
    )
    assert Loader.of_snapshot(image.covers, decode_snapshot("ours", data)).image == image


@pytest.mark.parametrize(
    "name", ["00000000000000000000-0000000000.checkpoint", "bootstrap.checkpoint", *SNAPSHOT_NAMES]
)
def test_our_snapshot_of_kafkas_records_is_kafkas_file_but_for_its_three_times(name: str) -> None:
    theirs = files()[name]
    read = decode_snapshot(name, theirs)
    batches = [(header, decode_batch(theirs, position)) for position, header in batch_headers(theirs)]
    epoch = batches[0][0].leader_epoch
    now_ms = batches[0][0].max_timestamp
    ours = encode_snapshot(
        read.records,
        metadata_version=30,
        epoch=epoch,
        last_timestamp_ms=read.last_timestamp_ms,
        now_ms=now_ms,
        quorum=read.quorum,
    )
    # Kafka takes the time again for each batch.
    same_time = b"".join(
        encode_batch(
            [record._replace(timestamp=now_ms) for record in records], leader_epoch=epoch, control=header.is_control
        )
        for header, records in batches
    )
    assert ours == same_time


def test_the_records_of_a_snapshot_come_in_kafkas_order() -> None:
    kinds = [type(record).__name__ for record in image_records(image_at(255))]
    theirs = [type(record).__name__ for record in snapshot(SNAPSHOT_NAMES[1]).records]
    assert _runs(kinds, {"TopicRecord", "PartitionRecord"}) == _runs(theirs, {"TopicRecord", "PartitionRecord"})
    assert len(kinds) == len(theirs)


def _runs(kinds: list[str], joined: set[str]) -> list[str]:
    runs: list[str] = []
    for kind in ("topics" if kind in joined else kind for kind in kinds):
        if not runs or runs[-1] != kind:
            runs.append(kind)
    return runs


def test_the_quorum_state_and_the_topic_id_are_kafkas() -> None:
    theirs = files()["quorum-state"]
    assert ElectionState.decode("quorum-state", theirs) == ElectionState(2, 1)
    assert ElectionState(2, 1).encode(1, [1]) == theirs
    assert uuid_from_text("AAAAAAAAAAAAAAAAAAAAAQ") == METADATA_TOPIC_ID


def test_the_voters_are_read_from_control_records() -> None:
    quorum = QuorumVoters()
    for batch in batches():
        for control_type, value in batch.control:
            quorum = quorum.after(control_type, value)
    assert quorum.kraft_version == 1
    assert quorum.voters is not None
    assert [voter.voter_id for voter in quorum.voters.voters] == [1]
    assert quorum == snapshot(SNAPSHOT_NAMES[0]).quorum


def test_snapshots_are_named_as_kafkas() -> None:
    named = [entry["file"] for entry in stated_metadata()["metadataSnapshots"]]
    for name in named:
        snapshot_id = parse_snapshot_name(name)
        assert snapshot_id is not None
        assert snapshot_name(snapshot_id) == name
