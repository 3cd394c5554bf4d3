"""Changes of topics and leaders are logged at INFO: a line each, or one for many."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from cordwood.broker import topic_news
from cordwood.broker.topic_news import log_topic_news
from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.schema import MetadataRecord
from tests.broker.in_process import InProcessNode, node_at, run

LOGGER = topic_news.__name__


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def test_a_topics_life_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with node_at(tmp_path) as node:
            await node.create("t", 2)
            await _grow(node, "t", 3)
            await node.delete("t")

    with caplog.at_level(logging.INFO, LOGGER):
        run(main())
    assert lines(caplog) == [
        "Created topic t (partitions: 2, replication factor: 1)",
        "Added partitions to t (from 2 to 3)",
        "Deleted topic t (partitions: 3)",
    ]


async def _grow(node: InProcessNode, topic: str, partitions: int) -> None:
    channel = await node.connect()
    wanted = CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
    await channel.request(CreatePartitionsRequest(topics=[wanted], timeout_ms=10_000), 3)
    channel.close()


def changed(image: MetadataImage, *records: MetadataRecord) -> MetadataDelta:
    return MetadataDelta(image).replay_all(list(records))


def topic_id(number: int) -> bytes:
    return number.to_bytes(16)


def creation(count: int) -> list[MetadataRecord]:
    return [
        record
        for number in range(1, count + 1)
        for record in (
            TopicRecord(name=f"t{number}", topic_id=topic_id(number)),
            PartitionRecord(
                partition_id=0,
                topic_id=topic_id(number),
                replicas=[1, 2],
                isr=[1, 2],
                removing_replicas=[],
                adding_replicas=[],
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=[topic_id(1), topic_id(2)],
            ),
        )
    ]


def moves(count: int, leader: int) -> list[MetadataRecord]:
    return [
        PartitionChangeRecord(partition_id=0, topic_id=topic_id(number), leader=leader, isr=[2])
        for number in range(1, count + 1)
    ]


@pytest.mark.parametrize(("leader", "named"), [(2, "2"), (-1, "none")])
def test_a_change_of_leader_is_logged(leader: int, named: str, caplog: pytest.LogCaptureFixture) -> None:
    image = changed(MetadataImage(), *creation(1)).apply(MetadataImage().covers, 0)
    with caplog.at_level(logging.INFO, LOGGER):
        log_topic_news(changed(image, *moves(1, leader)).topics)
    assert lines(caplog) == [f"New leader of t1-0: {named} (before: 1, epoch: 1, in sync: 2)"]


def test_a_change_of_other_things_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    image = changed(MetadataImage(), *creation(1)).apply(MetadataImage().covers, 0)
    with caplog.at_level(logging.INFO, LOGGER):
        log_topic_news(changed(image, PartitionChangeRecord(partition_id=0, topic_id=topic_id(1), isr=[1])).topics)
    assert lines(caplog) == []


def test_many_changes_are_one_line(caplog: pytest.LogCaptureFixture) -> None:
    created = changed(MetadataImage(), *creation(1000))
    image = created.apply(MetadataImage().covers, 0)
    with caplog.at_level(logging.INFO, LOGGER):
        log_topic_news(created.topics)
        log_topic_news(changed(image, *moves(1000, 2)).topics)
    first, second = lines(caplog)
    assert first.startswith("Created 1000 topics: t1 (partitions: 1, replication factor: 2); t2 ")
    assert second.startswith("New leader of 1000 partitions: t1-0: 2 (before: 1, ")
    assert len(first) < 300
