"""What applications give to calls: what is taken as it was meant, and what is refused before anything is done."""

import asyncio
import uuid
from collections.abc import Iterator
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
    TopicPartition,
)
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
def test_the_admin_client_refuses_what_it_cannot_mean(call: str, given: tuple[Any, ...], admin: Admin) -> None:
    with pytest.raises(BadSetting, match="expected"):
        getattr(admin, call)(*given)


@pytest.mark.parametrize("call", ["list_groups", "list_consumer_groups", "list_transactions"])
def test_a_state_that_there_is_not_is_refused_with_those_that_there_are(call: str) -> None:
    async def main() -> None:
        # Nobody listens there: it is refused before anybody is asked.
        settings = AdminSettings(bootstrap_servers=parse_bootstrap("localhost:1"))
        admin = AsyncAdmin(settings, network=SocketNetwork())
        with pytest.raises(BadSetting, match="'Emptyy' is none of states; there are Empty, "):
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


def test_a_change_of_a_configuration_sets_unless_told() -> None:
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


def test_who_resets_the_offsets_of_a_group_with_members_hears_that_they_have_to_leave(
    admin: Admin, bootstrap: str, topic: str
) -> None:
    with Consumer(topic, bootstrap_servers=bootstrap, group_id=topic) as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=100)
        with pytest.raises(BrokerError, match=f"group {topic} has members") as refused:
            admin.alter_consumer_group_offsets(topic, {TopicPartition(topic, 0): 0})
    assert refused.value.what_to_do == "stop its members first"
