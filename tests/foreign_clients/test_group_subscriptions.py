"""Subscriptions by regular expression, and topics that change under a group."""

from collections.abc import Callable

import pytest

from tests.foreign_clients.group_under_test import KINDS, Feed, Group, Kind
from tests.foreign_clients.kafka_client import Address
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient
from tests.foreign_clients.member_journal import Place

CreateFeed = Callable[[int], Feed]


@pytest.fixture(
    params=[
        "librdkafka-eager",
        "librdkafka-consumer",
        "kafka-python",
        "aiokafka",
        "cordwood-eager",
        "cordwood-cooperative",
        "cordwood-consumer",
    ]
)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def test_a_pattern_takes_in_topics_that_come_later(
    kind: Kind, group: Group, groups_admin: LibrdkafkaClient, groups_address: Address
) -> None:
    first, second, other = (f"{group.topic}-{suffix}" for suffix in ("a1", "a2", "b1"))
    for topic in (first, other):
        groups_admin.create_topic(topic, 2)
    members = [group.start(kind, topics=(f"^{group.topic}-a[0-9]+$",)) for _ in range(2)]
    places = {Place(first, partition) for partition in range(2)}
    group.await_shared(members, places)
    group.await_processed(Feed(groups_address, first, 2).add(5))
    groups_admin.create_topic(second, 2)
    group.await_shared(members, places | {Place(second, partition) for partition in range(2)})
    group.await_processed(Feed(groups_address, second, 2).add(5))
    assert {record.topic for record in group.history().processed()} == {first, second}


def test_partitions_that_are_added_are_worked_on(
    kind: Kind, group: Group, feed: CreateFeed, groups_admin: LibrdkafkaClient, groups_address: Address
) -> None:
    feed(2)
    members = [group.start(kind) for _ in range(2)]
    group.await_owners(members, 2)
    groups_admin.add_partitions(group.topic, 4)
    group.await_owners(members, 4)
    group.await_processed(Feed(groups_address, group.topic, 4).add(5))
