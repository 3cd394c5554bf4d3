"""Arguments of calls: accepted forms, and those rejected before anything is sent."""

import asyncio
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import cordwood.testing
from cordwood import (
    Admin,
    AlterOperation,
    BadSetting,
    BrokerError,
    ConfigChange,
    ConfigResource,
    ConfigResourceType,
    Consumer,
    NewTopic,
    OffsetAndMetadata,
    TopicNotFound,
    TopicPartition,
)
from cordwood.client import arguments
from cordwood.client.addresses import parse_bootstrap
from cordwood.client.admin.admin import Admin as AsyncAdmin
from cordwood.client.settings import AdminSettings
from cordwood.runtime.sockets import SocketNetwork

P0 = TopicPartition("a", 0)
TOPIC = ConfigResource(ConfigResourceType.TOPIC, "a")

# Each would be done to something else than was meant, or fail with words of our insides.
MISTAKES: list[tuple[str, tuple[Any, ...]]] = [
    ("create_topics", (["a"],)),
    ("create_topics", ("a",)),
    ("create_topics", (NewTopic("a"),)),
    ("create_topics", ([NewTopic("a", "3")],)),  # type: ignore[arg-type]
    ("create_topics", ([NewTopic("a", configs={"retention.ms": [1]})],)),  # type: ignore[dict-item]
    ("delete_topics", ("qw",)),
    ("delete_topics", (b"0123456789abcdef",)),
    ("delete_topics", ([NewTopic("a")],)),
    ("describe_topics", ("qw",)),
    ("describe_topics", ([1],)),
    ("describe_topics_by_id", (b"0123456789abcdef",)),
    ("create_partitions", (["a"],)),
    ("create_partitions", ({"a": "3"},)),
    ("until_topics_led", ("qw",)),
    ("until_topics_gone", ("qw",)),
    ("list_offsets", ([P0],)),
    ("list_offsets", ({P0: 1.5},)),
    ("list_offsets", ({"a": 0},)),
    ("delete_records", ({P0: "all"},)),
    ("elect_leaders", (P0,)),
    ("elect_leaders", (["a"],)),
    ("alter_partition_reassignments", ({P0: "12"},)),
    ("alter_partition_reassignments", ({P0: 1},)),
    ("list_partition_reassignments", (["a-0"],)),
    ("describe_configs", (["a"],)),
    ("describe_configs", (TOPIC,)),
    ("describe_configs", ([TOPIC], "retention.ms")),
    ("incremental_alter_configs", ({TOPIC: {"retention.ms": "5"}},)),
    ("incremental_alter_configs", ({"a": [ConfigChange("retention.ms", value=5)]},)),
    ("alter_configs", ({TOPIC: ["retention.ms"]},)),
    ("list_config_resources", (["TOPIC"],)),
    ("update_features", ({"metadata.version": 20},)),
    ("unregister_broker", ("1",)),
    ("describe_log_dirs", ("1",)),
    ("describe_log_dirs", (None, "a")),
    ("describe_replica_log_dirs", ([P0],)),
    ("alter_replica_log_dirs", ({P0: "/"},)),
    ("describe_consumer_groups", ("g",)),
    ("delete_consumer_groups", ("gh",)),
    ("list_consumer_group_offsets", ("gh",)),
    ("alter_consumer_group_offsets", ("g", {P0: "7"})),
    ("alter_consumer_group_offsets", ("g", {P0: -7})),
    ("alter_consumer_group_offsets", (["g"], {P0: 7})),
    ("delete_consumer_group_offsets", ("g", P0)),
    ("delete_consumer_group_offsets", ("g", ["a"])),
    ("describe_transactions", ("tx",)),
    ("describe_producers", (P0,)),
    ("list_open_transactions", (P0,)),
    ("find_transaction_owners", ([P0],)),
    ("fence_producers", ("tx",)),
    ("create_acls", (["a"],)),
    ("delete_acls", (["a"],)),
    ("alter_client_quotas", ({"alice": {"producer_byte_rate": 1.0}},)),
    ("describe_user_scram_credentials", ("alice",)),
    ("alter_user_scram_credentials", (["alice"],)),
    ("describe_delegation_tokens", ("User:alice",)),
]


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with cordwood.testing.node() as node:
        yield node.bootstrap


@pytest.fixture(scope="module")
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap_servers=bootstrap) as admin:
        yield admin


@pytest.fixture
def topic(admin: Admin) -> str:
    """With one partition."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    admin.create_topics([NewTopic(name, partitions=1)])
    admin.until_topics_led([name])
    return name


@pytest.mark.parametrize(("call", "given"), MISTAKES, ids=[f"{call}{given}" for call, given in MISTAKES])
def test_the_admin_client_refuses_invalid_arguments(call: str, given: tuple[Any, ...], admin: Admin) -> None:
    with pytest.raises(BadSetting, match="expected"):
        getattr(admin, call)(*given)


@pytest.mark.parametrize("call", ["list_groups", "list_consumer_groups", "list_transactions"])
def test_an_unknown_state_is_refused_with_the_valid_ones(call: str) -> None:
    async def main() -> None:
        # Nobody listens there: it is refused before anybody is asked.
        settings = AdminSettings(bootstrap_servers=parse_bootstrap("localhost:1"))
        admin = AsyncAdmin(settings, network=SocketNetwork())
        with pytest.raises(BadSetting, match="'Emptyy' is not one of states: Empty, "):
            await getattr(admin, call)(states=["Emptyy"])

    asyncio.run(main())


# ---- what is taken as it was meant


def test_numbers_and_bools_are_configurations_as_their_texts(admin: Admin, topic: str) -> None:
    name = f"{topic}-configured"
    configs = {"retention.ms": 1000, "preallocate": True, "min.cleanable.dirty.ratio": 0.25}
    admin.create_topics([NewTopic(name, partitions=1, configs=configs)])
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    admin.incremental_alter_configs({resource: [ConfigChange("segment.ms", value=5000)]})
    entries = {entry.name: entry.value for entry in admin.describe_configs([resource])[resource]}
    assert entries["retention.ms"] == "1000"
    assert entries["preallocate"] == "true"
    assert entries["min.cleanable.dirty.ratio"] == "0.25"
    assert entries["segment.ms"] == "5000"


def test_a_number_in_the_place_of_an_operation_is_refused() -> None:
    with pytest.raises(BadSetting, match=r"ConfigChange\('min.insync.replicas', value=2\)"):
        ConfigChange("min.insync.replicas", 2)  # type: ignore[arg-type]


def test_a_configuration_change_sets_by_default() -> None:
    assert ConfigChange("retention.ms", value=5).operation is AlterOperation.SET


def test_topics_are_all_described_without_names(admin: Admin, topic: str) -> None:
    assert admin.describe_topics()[topic].partitions
    assert admin.describe_topics([]) == {}


def test_a_number_is_an_offset_to_reset_a_group_to(admin: Admin, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    admin.alter_consumer_group_offsets(topic, {partition: 3})
    assert admin.list_consumer_group_offsets([topic])[topic] == {partition: OffsetAndMetadata(3)}


def test_states_may_be_spelled_in_small_letters(admin: Admin, topic: str) -> None:
    admin.alter_consumer_group_offsets(topic, {(topic, 0): 3})  # type: ignore[dict-item]
    assert topic in [group.id for group in admin.list_consumer_groups(states=["empty"])]


def test_resetting_offsets_of_an_active_group_is_refused(admin: Admin, bootstrap: str, topic: str) -> None:
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic) as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        with pytest.raises(BrokerError, match=f"group {topic} has active members") as refused:
            admin.alter_consumer_group_offsets(topic, {TopicPartition(topic, 0): 0})
    assert refused.value.what_to_do == "stop its members first"


# ---- the consumer


@pytest.fixture
def consumer(bootstrap: str, topic: str) -> Iterator[Consumer]:
    """The description of partition 0 of the topic."""
    with Consumer(bootstrap_servers=bootstrap, group_id=topic, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        yield consumer


CONSUMER_MISTAKES: list[tuple[str, tuple[Any, ...]]] = [
    ("assign", (["p1"],)),
    ("assign", ([TopicPartition("a", "0")],)),  # type: ignore[arg-type]
    ("assign", ([TopicPartition("a", -1)],)),
    ("assign", (P0,)),
    ("assign", ("a",)),
    ("getmany", ("a",)),
    ("getone", (0,)),
    ("poll", ("soon",)),
    ("poll", (0, "all")),
    ("seek", (P0, "x")),
    ("seek", (P0, -1)),
    ("seek", ("a", 0)),
    ("seek_to_beginning", ("a",)),
    ("pause", ("a",)),
    ("position", ("a",)),
    ("lag", ("a",)),
    ("commit", ([P0],)),
    ("commit", ({P0: "7"},)),
    ("commit", ({P0: True},)),
    ("commit", ({P0: (7, 8)},)),
    ("commit", ({"a": 7},)),
    ("commit", ({P0: 7}, "soon")),
    ("commit_async", ({P0: 7}, "callback")),
    ("committed", ("a",)),
    ("end_offsets", (P0,)),
    ("beginning_offsets", (["a"],)),
    ("offsets_for_times", ({P0: 1.7e9},)),
    ("offsets_for_times", ({P0: -1},)),
    ("partitions_for", (["a"],)),
]


@pytest.mark.parametrize(("call", "given"), CONSUMER_MISTAKES, ids=[f"{c}{given}" for c, given in CONSUMER_MISTAKES])
def test_a_consumer_refuses_invalid_arguments(call: str, given: tuple[Any, ...], consumer: Consumer) -> None:
    with pytest.raises(BadSetting, match="expected"):
        getattr(consumer, call)(*given)


@pytest.mark.parametrize("listener", [print, object(), dict])
def test_a_listener_without_a_group_subscription_is_refused(bootstrap: str, topic: str, listener: Any) -> None:
    with (
        Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer,
        pytest.raises(BadSetting, match="listener"),
    ):
        consumer.subscribe([topic], listener=listener)


@pytest.mark.parametrize("pattern", ["orders-(", re.compile(b"orders"), 7])
def test_invalid_patterns_are_refused(bootstrap: str, topic: str, pattern: Any) -> None:
    with (
        Consumer(bootstrap_servers=bootstrap, group_id=topic) as consumer,
        pytest.raises(BadSetting, match="the pattern"),
    ):
        consumer.subscribe(pattern=pattern)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(BadSetting, match="has no time zone"):
        arguments.time_of(P0, datetime(2024, 5, 1))


def test_a_time_is_milliseconds_or_a_datetime() -> None:
    assert arguments.time_of(P0, datetime(2024, 5, 1, 12, tzinfo=UTC)) == 1_714_564_800_000
    assert arguments.time_of(P0, 1_714_564_800_000) == 1_714_564_800_000


def test_a_plain_tuple_is_a_partition(consumer: Consumer, topic: str) -> None:
    consumer.commit({(topic, 0): 3})  # type: ignore[dict-item]
    assert consumer.committed((topic, 0)) == {TopicPartition(topic, 0): OffsetAndMetadata(3)}  # type: ignore[arg-type]


@pytest.mark.parametrize("offset", [7, (7, ""), (7, None), OffsetAndMetadata(7)])
def test_an_offset_is_committed_however_it_is_given(consumer: Consumer, topic: str, offset: Any) -> None:
    partition = TopicPartition(topic, 0)
    consumer.commit({partition: offset})
    assert consumer.committed(partition) == {partition: OffsetAndMetadata(7)}


def test_partitions_are_given_one_by_one_or_as_a_list(consumer: Consumer, topic: str) -> None:
    partition = TopicPartition(topic, 0)
    for given in ([partition], {partition}, partition):
        consumer.pause(given)  # type: ignore[arg-type]
        assert consumer.paused() == {partition}
        consumer.resume(given)  # type: ignore[arg-type]
        assert consumer.paused() == set()
        consumer.seek_to_beginning(given)  # type: ignore[arg-type]
        assert consumer.committed(given) == {partition: None}  # type: ignore[arg-type]
        assert consumer.getmany(given) == {}  # type: ignore[arg-type]


def test_an_empty_list_does_not_mean_all_assigned_partitions(consumer: Consumer) -> None:
    with pytest.raises(BadSetting, match="the list of partitions is empty"):
        consumer.seek_to_beginning([])  # type: ignore[arg-type]
    consumer.pause([])  # type: ignore[arg-type]
    assert consumer.paused() == set()


@pytest.mark.parametrize("missing", ["{topic}-not-there", "{topic}"])
def test_a_commit_for_a_missing_partition_fails_before_the_timeout(
    consumer: Consumer, topic: str, missing: str
) -> None:
    # Which is a minute: a commit that is tried again until then raises `GaveUp`.
    partition = TopicPartition(missing.format(topic=topic), 99)
    with pytest.raises(TopicNotFound, match=str(partition)):
        consumer.commit({partition: 1})
