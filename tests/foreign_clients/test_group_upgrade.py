"""A group that works is brought from the classic protocol to KIP-848, member by member, and back."""

from collections.abc import Callable
from functools import partial
from operator import eq

import pytest

from tests.foreign_clients.group_admin import LibrdkafkaGroups
from tests.foreign_clients.group_under_test import (
    CONSUMER,
    COOPERATIVE,
    CORDWOOD,
    CORDWOOD_CONSUMER,
    CORDWOOD_COOPERATIVE,
    EAGER,
    Feed,
    Group,
    Kind,
)
from tests.foreign_clients.kafka_client import Address, eventually

PARTITIONS = 6

CreateFeed = Callable[[int], Feed]


@pytest.mark.parametrize(
    "stages",
    [
        [EAGER, CONSUMER],
        [CONSUMER, EAGER],
        [CONSUMER, COOPERATIVE],
        [EAGER, CONSUMER, EAGER],
        [CORDWOOD, CORDWOOD_CONSUMER, CORDWOOD],
        [CORDWOOD_COOPERATIVE, CORDWOOD_CONSUMER, CORDWOOD_COOPERATIVE],
        [EAGER, CORDWOOD_CONSUMER, CONSUMER, CORDWOOD],
    ],
    ids=[
        "up",
        "down to range",
        "down to cooperative-sticky",
        "up and back",
        "cordwood up and back",
        "cordwood cooperative up and back",
        "two libraries up and back",
    ],
)
def test_a_group_changes_its_protocol_while_it_works(
    stages: list[Kind], group: Group, feed: CreateFeed, groups_address: Address
) -> None:
    first, *later = stages
    viewer = LibrdkafkaGroups(groups_address)
    records = feed(PARTITIONS)
    members = [group.start(first) for _ in range(2)]
    group.await_owners(members, PARTITIONS)
    for kind in later:
        for _ in range(2):
            records.add(10)
            members.append(group.start(kind))
            group.await_owners(members, PARTITIONS)
            records.add(10)
            members.pop(0).leave()
            group.await_owners(members, PARTITIONS)
        eventually(partial(group_type, viewer, group), partial(eq, kind.protocol))
    group.await_processed(records.add(10))

    history = group.history()
    history.check_one_owner_per_generation()
    history.check_owned_by_one_at_a_time()
    history.check_in_order()
    history.check_each_processed(records.ends)


def test_a_group_whose_assignments_carry_their_own_data_is_not_upgraded(group: Group, feed: CreateFeed) -> None:
    """As those of librdkafka's cooperative-sticky do from the second generation on: the newcomer is refused, and the
    others do not notice."""
    records = feed(PARTITIONS)
    for _ in range(2):
        group.start(COOPERATIVE)
        group.await_owners(group.members, PARTITIONS)
    newcomer = group.start(CONSUMER)
    assert "group id does not exist" in group.await_event(newcomer, "error").text
    group.await_processed(records.add(10))
    history = group.history()
    assert history.owned()[newcomer.name] == set()
    history.check_each_processed(records.ends)


def group_type(viewer: LibrdkafkaGroups, group: Group) -> str | None:
    return viewer.describe(group.name).type
