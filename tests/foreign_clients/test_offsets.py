"""Committed offsets: by whom and how they are committed, who sees them, and that they are there after a restart."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

import cordwood
from cordwood.wire.errors import ErrorCode
from tests.foreign_clients.aiokafka_client import connection_settings as aiokafka_settings
from tests.foreign_clients.cordwood_client import connection_settings as cordwood_settings
from tests.foreign_clients.group_admin import (
    AiokafkaGroups,
    CordwoodGroups,
    GroupAdmin,
    GroupViewer,
    KafkaPythonGroups,
    LibrdkafkaGroups,
)
from tests.foreign_clients.group_fixtures import SETTINGS
from tests.foreign_clients.group_under_test import CONSUMER, COOPERATIVE, EAGER, KINDS, Feed, Group, Kind
from tests.foreign_clients.kafka_client import PATIENCE_S, Address, eventually, refusal_of
from tests.foreign_clients.kafka_python import KafkaConsumer
from tests.foreign_clients.kafka_python_client import connection_settings as kafka_python_settings
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.librdkafka_client import connection_settings as librdkafka_settings
from tests.foreign_clients.member_journal import Place
from tests.foreign_clients.node_process import Nodes, kill, stop

PARTITIONS = 3

VIEWERS: dict[str, type[GroupViewer]] = {
    "librdkafka": LibrdkafkaGroups,
    "kafka-python": KafkaPythonGroups,
    "aiokafka": AiokafkaGroups,
    "cordwood": CordwoodGroups,
}
ADMINS: dict[str, type[GroupAdmin]] = {
    "librdkafka": LibrdkafkaGroups,
    "kafka-python": KafkaPythonGroups,
    "cordwood": CordwoodGroups,
}

CreateFeed = Callable[[int], Feed]


@pytest.fixture(params=VIEWERS)
def viewer(request: pytest.FixtureRequest, groups_address: Address) -> Iterator[GroupViewer]:
    viewer = VIEWERS[request.param](groups_address)
    yield viewer
    viewer.close()


@pytest.fixture(params=ADMINS)
def admin(request: pytest.FixtureRequest, groups_address: Address) -> Iterator[GroupAdmin]:
    admin = ADMINS[request.param](groups_address)
    yield admin
    admin.close()


@pytest.mark.parametrize(
    "name",
    ["librdkafka-eager", "librdkafka-consumer", "kafka-python", "aiokafka", "cordwood-eager", "cordwood-consumer"],
)
def test_administrators_see_the_members_commits(name: str, viewer: GroupViewer, group: Group, feed: CreateFeed) -> None:
    records = feed(PARTITIONS)
    added = records.add(10) + records.add(5, [Place(group.topic, 1)])
    member = group.start(KINDS[name])
    group.await_processed(added)
    member.leave()
    assert offsets_of(viewer, group) == records.ends
    assert group.name in viewer.groups()


@pytest.mark.parametrize("kind", [EAGER, COOPERATIVE, CONSUMER], ids=lambda kind: f"{kind.protocol}-{kind.assignor}")
def test_groups_are_described_with_and_without_members(
    kind: Kind, group: Group, feed: CreateFeed, groups_address: Address
) -> None:
    feed(PARTITIONS)
    viewer = LibrdkafkaGroups(groups_address)
    members = [group.start(kind, instance_id=f"instance-{number}") for number in range(2)]
    owned = group.await_owners(members, PARTITIONS)
    described = eventually(lambda: viewer.describe(group.name), lambda description: description.state == "stable")
    assert described.type == kind.protocol
    assert sorted(map(sorted, described.assignments)) == sorted(map(sorted, owned.values()))
    assert described.instances == {"instance-0", "instance-1"}
    assert viewer.groups()[group.name] == "stable"
    for member in members:
        member.kill()


@pytest.mark.parametrize("kind", [EAGER, CONSUMER], ids=["classic", "consumer"])
def test_offsets_that_an_administrator_sets_are_where_members_begin(
    kind: Kind, admin: GroupAdmin, group: Group, feed: CreateFeed
) -> None:
    records = feed(PARTITIONS)
    added = records.add(10)
    admin.set_offsets(group.name, {Place(group.topic, 0): 4, Place(group.topic, 1): 10})
    member = group.start(kind)
    begins = {0: 4, 1: 10, 2: 0}
    group.await_processed(record for record in added if record.offset >= begins[record.partition])
    group.await_processed(records.add(1))
    skipped = {(record.partition, record.offset) for record in set(added) - set(group.history().processed())}
    assert skipped == {(partition, offset) for partition, begin in begins.items() for offset in range(begin)}
    assert refusal_of(lambda: admin.set_offsets(group.name, {Place(group.topic, 0): 0})) == ErrorCode.UNKNOWN_MEMBER_ID
    member.leave()
    admin.set_offsets(group.name, {Place(group.topic, 0): 0})
    assert admin.offsets(group.name)[Place(group.topic, 0)][0] == 0


@pytest.mark.parametrize("kind", [EAGER, CONSUMER], ids=["classic", "consumer"])
def test_a_group_without_members_is_deleted(kind: Kind, admin: GroupAdmin, group: Group, feed: CreateFeed) -> None:
    records = feed(PARTITIONS)
    member = group.start(kind)
    group.await_processed(records.add(5))
    assert refusal_of(lambda: admin.delete(group.name)) == ErrorCode.NON_EMPTY_GROUP
    member.leave()
    admin.delete(group.name)
    assert group.name not in admin.groups()
    assert admin.offsets(group.name) == {}
    assert refusal_of(lambda: admin.delete(group.name)) == ErrorCode.GROUP_ID_NOT_FOUND


def test_commits_carry_metadata_and_may_be_made_in_the_background(
    groups_address: Address, groups_admin: LibrdkafkaClient, topic: str, viewer: GroupViewer
) -> None:
    groups_admin.create_topic(topic, 2)
    answers: list[tuple[KafkaError | None, list[TopicPartition]]] = []
    consumer = Consumer(
        librdkafka_settings(groups_address)
        | {
            "group.id": f"g-{topic}",
            "enable.auto.commit": False,
            "on_commit": lambda error, offsets: answers.append((error, offsets)),
        }
    )
    in_sync = TopicPartition(topic, 0, 11, metadata="a word for you: ü")
    consumer.commit(offsets=[in_sync], asynchronous=False)
    consumer.commit(offsets=[TopicPartition(topic, 1, 22)], asynchronous=True)
    eventually(lambda: consumer.poll(0.05) is None and any(offsets[0].partition == 1 for _, offsets in answers))
    assert [error for error, _ in answers if error is not None] == []
    assert viewer.offsets(f"g-{topic}") == {Place(topic, 0): (11, "a word for you: ü"), Place(topic, 1): (22, "")}
    seen = consumer.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)], timeout=PATIENCE_S)
    assert [(place.offset, place.metadata) for place in seen] == [(11, "a word for you: ü"), (22, None)]
    consumer.close()


def test_metadata_that_is_too_long_is_refused(
    groups_address: Address, groups_admin: LibrdkafkaClient, topic: str
) -> None:
    groups_admin.create_topic(topic)
    consumer = Consumer(librdkafka_settings(groups_address) | {"group.id": f"g-{topic}"})
    too_long = TopicPartition(topic, 0, 1, metadata="x" * 4097)
    with pytest.raises(KafkaException) as refused:
        consumer.commit(offsets=[too_long], asynchronous=False)
    assert refused.value.args[0].code() == ErrorCode.OFFSET_METADATA_TOO_LARGE
    consumer.close()


def read_with_librdkafka(address: Address, topic: str) -> None:
    consumer = Consumer(librdkafka_settings(address) | {"group.id": f"g-{topic}", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    for _ in range(10):
        eventually(lambda: consumer.poll(0.1))
    consumer.close()


def read_with_kafka_python(address: Address, topic: str) -> None:
    consumer = KafkaConsumer(
        topic, **kafka_python_settings(address), group_id=f"g-{topic}", auto_offset_reset="earliest"
    )
    for _ in range(10):
        next(consumer)
    consumer.close()


def read_with_aiokafka(address: Address, topic: str) -> None:
    async def read() -> None:
        consumer = AIOKafkaConsumer(
            topic, **aiokafka_settings(address), group_id=f"g-{topic}", auto_offset_reset="earliest"
        )
        await consumer.start()
        for _ in range(10):
            await asyncio.wait_for(consumer.getone(), PATIENCE_S)
        await consumer.stop()

    asyncio.run(read())


def read_with_cordwood(address: Address, topic: str) -> None:
    with cordwood.Consumer(
        topic, **cordwood_settings(address), group_id=f"g-{topic}", auto_offset_reset="earliest"
    ) as consumer:
        for _ in range(10):
            consumer.getone()


AUTO_COMMITTERS = {
    "librdkafka": read_with_librdkafka,
    "kafka-python": read_with_kafka_python,
    "aiokafka": read_with_aiokafka,
    "cordwood": read_with_cordwood,
}


@pytest.mark.parametrize("library", AUTO_COMMITTERS)
def test_closing_with_auto_commit_commits(library: str, groups_address: Address, feed: CreateFeed, topic: str) -> None:
    records = feed(1)
    records.add(10)
    AUTO_COMMITTERS[library](groups_address, topic)
    assert LibrdkafkaGroups(groups_address).offsets(f"g-{topic}") == {Place(topic, 0): (10, "")}


@pytest.mark.parametrize("end", [stop, kill])
@pytest.mark.parametrize(
    "name",
    [
        "librdkafka-cooperative",
        "librdkafka-consumer",
        "kafka-python",
        "aiokafka",
        "cordwood-eager",
        "cordwood-cooperative",
        "cordwood-consumer",
    ],
)
def test_a_group_continues_after_its_node_restarts(
    name: str, end: Callable[[Nodes], object], own_node: Callable[..., Nodes], topic: str, tmp_path: Path
) -> None:
    """Members stay, and continue where they were: what was committed is not worked on again."""
    node = own_node(SETTINGS)
    address = Address(node.bootstrap)
    viewer = LibrdkafkaGroups(address)
    LibrdkafkaClient(address).create_topic(topic, PARTITIONS)
    records = Feed(address, topic, PARTITIONS)
    with closing(Group(address, f"g-{topic}", topic, tmp_path)) as group:
        members = [group.start(KINDS[name]) for _ in range(2)]
        group.await_owners(members, PARTITIONS)
        group.await_processed(records.add(20))
        eventually(lambda: offsets_of(viewer, group), lambda offsets: offsets == records.ends)
        end(node)
        node.start()
        # librdkafka may never ask again by a handle that had seen the coordinator go away.
        viewer = LibrdkafkaGroups(address)
        assert eventually(lambda: offsets_of(viewer, group)) == records.ends
        group.await_processed(records.add(20))
        group.await_owners(members, PARTITIONS)
        history = group.history()
    history.check_one_owner_per_generation()
    history.check_each_processed(records.ends)


def offsets_of(viewer: GroupViewer, group: Group) -> dict[Place, int]:
    return {place: offset for place, (offset, _metadata) in viewer.offsets(group.name).items()}
