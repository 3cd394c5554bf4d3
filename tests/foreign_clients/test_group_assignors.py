"""Assignments in groups with clients of several libraries, and undisturbed members in a rebalance."""

from collections.abc import Callable, Iterator

import pytest

from tests.foreign_clients.group_admin import KafkaPythonGroups
from tests.foreign_clients.group_under_test import (
    CONSUMER,
    COOPERATIVE,
    CORDWOOD_CONSUMER,
    CORDWOOD_COOPERATIVE,
    KAFKA_PYTHON_COOPERATIVE,
    Feed,
    Group,
    Kind,
    Member,
)
from tests.foreign_clients.kafka_client import Address, eventually

PARTITIONS = 6

CreateFeed = Callable[[int], Feed]


@pytest.fixture
def viewer(groups_address: Address) -> Iterator[KafkaPythonGroups]:
    viewer = KafkaPythonGroups(groups_address)
    yield viewer
    viewer.close()


@pytest.mark.parametrize("assignor", ["range", "roundrobin"])
def test_clients_of_four_libraries_share_a_group(assignor: str, group: Group, feed: CreateFeed) -> None:
    """For any leader, and any leaving member."""
    records = feed(PARTITIONS)
    libraries = ("aiokafka", "cordwood", "librdkafka", "kafka-python")
    members = [group.start(Kind(library, "classic", assignor)) for library in libraries]
    records.add(20)
    group.await_owners(members, PARTITIONS)
    while len(members) > 1:
        group.await_processed(records.add(20))
        members.pop(0).leave()
        records.add(20)
        group.await_owners(members, PARTITIONS)
    group.await_processed(records.add(20))

    history = group.history()
    history.check_one_owner_per_generation()
    history.check_owned_by_one_at_a_time()
    history.check_in_order()
    history.check_each_processed(records.ends)


@pytest.mark.parametrize("other", ["aiokafka", "librdkafka", "kafka-python"])
@pytest.mark.parametrize("leads", ["cordwood", "the other"])
def test_cordwood_and_another_client_share_a_group_under_either_leader(
    other: str, leads: str, group: Group, feed: CreateFeed
) -> None:
    """With the most demanding assignor that both have."""
    records = feed(PARTITIONS)
    assignor = "sticky" if other == "aiokafka" else "cooperative-sticky"
    libraries = ["cordwood", other] if leads == "cordwood" else [other, "cordwood"]
    members: list[Member] = []
    for library in libraries * 2:
        members.append(group.start(Kind(library, "classic", assignor)))
        records.add(20)
        group.await_owners(members, PARTITIONS)
        group.await_processed(records.add(20))
    while len(members) > 1:
        members.pop().leave()
        group.await_owners(members, PARTITIONS)
        group.await_processed(records.add(20))

    history = group.history()
    history.check_one_owner_per_generation()
    history.check_owned_by_one_at_a_time()
    history.check_in_order()
    history.check_each_processed(records.ends)


@pytest.mark.parametrize(
    "kinds",
    [
        (COOPERATIVE, COOPERATIVE),
        (COOPERATIVE, KAFKA_PYTHON_COOPERATIVE),
        (CORDWOOD_COOPERATIVE, CORDWOOD_COOPERATIVE),
        (CORDWOOD_COOPERATIVE, COOPERATIVE),
        (COOPERATIVE, CORDWOOD_COOPERATIVE),
    ],
)
def test_retained_partitions_are_processed_during_a_cooperative_rebalance(
    kinds: tuple[Kind, Kind], group: Group, feed: CreateFeed, viewer: KafkaPythonGroups
) -> None:
    """One member does not answer, so that the rebalance cannot come to its end before it is let continue."""
    records = feed(PARTITIONS)
    working, frozen = group.start(kinds[0], commits_async=True), group.start(kinds[1])
    group.await_owners([working, frozen], PARTITIONS)
    group.await_processed(records.add(10))
    frozen.process.freeze()
    newcomer = group.start(kinds[0])
    eventually(lambda: viewer.groups()[group.name], lambda state: state == "preparingrebalance")

    assert_works_on(group, records, working)
    assert viewer.groups()[group.name] == "preparingrebalance"

    frozen.process.thaw()
    group.await_owners([working, frozen, newcomer], PARTITIONS)
    group.await_processed(records.add(10))
    assert_nothing_stopped(group, records, [working, frozen])


@pytest.mark.parametrize("kind", [CONSUMER, CORDWOOD_CONSUMER], ids=["librdkafka", "cordwood"])
def test_retained_partitions_are_processed_while_others_move(
    kind: Kind, group: Group, feed: CreateFeed, viewer: KafkaPythonGroups
) -> None:
    """KIP-848: one member does not give up what it has to, the others are not held up by it."""
    records = feed(PARTITIONS)
    working, frozen = group.start(kind), group.start(kind)
    group.await_owners([working, frozen], PARTITIONS)
    group.await_processed(records.add(10))
    frozen.process.freeze()
    newcomer = group.start(kind)
    eventually(lambda: viewer.groups()[group.name], lambda state: state == "reconciling")

    assert_works_on(group, records, working)
    assert viewer.groups()[group.name] == "reconciling"

    frozen.process.thaw()
    group.await_owners([working, frozen, newcomer], PARTITIONS)
    group.await_processed(records.add(10))
    assert_nothing_stopped(group, records, [working, frozen])


def assert_works_on(group: Group, records: Feed, member: Member) -> None:
    """It gets record after record of what it has kept."""
    for _ in range(5):
        kept = group.history().owned()[member.name]
        assert kept
        group.await_processed(records.add(3, kept))


def assert_nothing_stopped(group: Group, records: Feed, members: list[Member]) -> None:
    """A member that kept a partition never lost it, and has processed all of it."""
    history = group.history()
    history.check_one_owner_per_generation()
    history.check_owned_by_one_at_a_time()
    history.check_in_order()
    history.check_each_processed(records.ends)
    owned = history.owned()
    for member in members:
        kept = owned[member.name]
        assert kept
        given_up = {place for event in member.events() if event.kind in ("revoked", "lost") for place in event.places}
        assert kept & given_up == set()
