"""Groups of real clients, each member a process: whoever comes and goes, each record has one worker per generation."""

from collections.abc import Callable

import pytest

from tests.foreign_clients.group_under_test import KINDS, Feed, Group, Kind
from tests.foreign_clients.kafka_client import ConfigChange, Resource, eventually
from tests.foreign_clients.librdkafka_client import LibrdkafkaClient

PARTITIONS = 6
# For members that are to be missed soon. The invariants also hold if a member expires on a slow machine.
SHORT_SESSION_MS = 1500

CreateFeed = Callable[[int], Feed]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Each kind of member in turn."""
    return KINDS[request.param]


def test_a_group_of_one_works_on_everything(kind: Kind, group: Group, feed: CreateFeed) -> None:
    records = feed(PARTITIONS)
    added = records.add(50)
    member = group.start(kind)
    group.await_owners([member], PARTITIONS)
    group.await_processed(added)
    group.await_processed(records.add(50))
    member.leave()
    history = group.history()
    history.check_in_order()
    history.check_each_processed(records.ends)


def test_members_that_join_and_leave_share_the_work(kind: Kind, group: Group, feed: CreateFeed) -> None:
    records = feed(PARTITIONS)
    for newcomers in (1, 1, 3):
        for _ in range(newcomers):
            group.start(kind)
        records.add(20)
        group.await_owners(group.members, PARTITIONS)
        records.add(20)
    left: list[str] = []
    for leavers in (1, 3):
        for member in [member for member in group.members if member.name not in left][:leavers]:
            member.leave()
            left.append(member.name)
        records.add(20)
        group.await_owners([member for member in group.members if member.name not in left], PARTITIONS)
    group.await_processed(records.add(20))

    history = group.history()
    history.check_one_owner_per_generation()
    history.check_owned_by_one_at_a_time()
    history.check_in_order()
    history.check_each_processed(records.ends)


def test_the_work_of_a_member_that_crashes_is_taken_over(
    kind: Kind, group: Group, feed: CreateFeed, groups_admin: LibrdkafkaClient
) -> None:
    """Uncommitted work is repeated, and nothing else."""
    records = feed(PARTITIONS)
    set_session_timeout(groups_admin, group, kind, SHORT_SESSION_MS)
    members = [group.start(kind, session_timeout_ms=SHORT_SESSION_MS) for _ in range(3)]
    group.await_owners(members, PARTITIONS)
    group.await_processed(records.add(20))
    records.add(200)
    crashing, *others = members
    crashing.kill()
    records.add(20)
    group.await_owners(others, PARTITIONS)
    group.await_processed(records.add(20))

    history = group.history()
    history.check_one_owner_per_generation()
    history.check_in_order()
    history.check_each_processed(records.ends, once=False)
    history.check_committed_once()


def test_a_stalled_member_is_removed_until_it_polls_again(
    kind: Kind, group: Group, feed: CreateFeed, groups_admin: LibrdkafkaClient
) -> None:
    records = feed(PARTITIONS)
    set_session_timeout(groups_admin, group, kind, SHORT_SESSION_MS)
    timeouts = {"session_timeout_ms": SHORT_SESSION_MS, "max_poll_interval_ms": SHORT_SESSION_MS}
    stalling, other = group.start(kind, **timeouts), group.start(kind, **timeouts | {"max_poll_interval_ms": 60_000})
    group.await_owners([stalling, other], PARTITIONS)
    group.await_processed(records.add(20))
    stalling.stall()
    added = records.add(20)
    group.await_owners([other], PARTITIONS)
    group.await_processed(added)
    stalling.go_on()
    group.await_owners([stalling, other], PARTITIONS)
    group.await_processed(records.add(20))

    history = group.history()
    history.check_one_owner_per_generation()
    history.check_in_order()
    history.check_each_processed(records.ends, once=False)


@pytest.mark.parametrize("stop", ["leaves", "crashes"])
def test_a_static_member_that_comes_back_finds_its_work_untouched(
    kind: Kind, stop: str, group: Group, feed: CreateFeed
) -> None:
    if kind.protocol == "consumer" and stop == "crashes":
        pytest.skip("with KIP-848 an instance has to be released, or its session to end")
    records = feed(PARTITIONS)
    members = [group.start(kind, instance_id=f"instance-{number}") for number in range(3)]
    before = group.await_owners(members, PARTITIONS)
    group.await_processed(records.add(20))
    generation = max(event.generation for event in group.history().of("assigned"))
    gone, others = members[1], [members[0], members[2]]
    seen = {other.name: len(other.events()) for other in others}
    if stop == "leaves":
        gone.leave()
    else:
        gone.kill()
    added = records.add(20)
    back = group.start(kind, instance_id="instance-1")
    group.await_owners([back, *others], PARTITIONS)
    group.await_processed(added)

    history = group.history()
    assert history.owned()[back.name] == before[gone.name]
    for other in others:
        assert [event for event in other.events()[seen[other.name] :] if event.kind in ("revoked", "lost")] == []
    assert {event.generation for event in history.of("assigned") if event.member == back.name} == {generation}
    history.check_in_order()
    history.check_each_processed(records.ends, once=stop == "leaves")


@pytest.mark.parametrize(
    "kind", ["librdkafka-eager", "librdkafka-cooperative", "cordwood-eager", "cordwood-cooperative"], indirect=True
)
def test_a_static_member_is_fenced_by_one_of_the_same_name(kind: Kind, group: Group, feed: CreateFeed) -> None:
    """kafka-python keeps still about it; aiokafka does not say who it is when it heartbeats, and joins again."""
    records = feed(PARTITIONS)
    first = group.start(kind, instance_id="the-same")
    group.await_owners([first], PARTITIONS)
    second = group.start(kind, instance_id="the-same")
    eventually(lambda: [e.text for e in first.events() if e.kind in ("error", "failed")], has_been_fenced)
    group.members.remove(first)
    group.await_owners([second], PARTITIONS)
    group.await_processed(records.add(20))


@pytest.mark.parametrize("kind", ["librdkafka-consumer", "cordwood-consumer"], indirect=True)
def test_an_instance_is_not_given_away_while_its_member_lives(kind: Kind, group: Group, feed: CreateFeed) -> None:
    """KIP-848: it is the second that is refused."""
    records = feed(PARTITIONS)
    first = group.start(kind, instance_id="the-same")
    group.await_owners([first], PARTITIONS)
    second = group.start(kind, instance_id="the-same")
    eventually(
        lambda: [event.text for event in second.events() if event.kind in ("error", "failed")],
        lambda texts: any("instance" in text.lower() for text in texts),
    )
    group.members.remove(second)
    group.await_processed(records.add(20))
    assert group.history().owned()[first.name] == set(records.ends)
    second.kill()


def set_session_timeout(admin: LibrdkafkaClient, group: Group, kind: Kind, timeout_ms: int) -> None:
    """With KIP-848 it is the group's and not the member's."""
    if kind.protocol == "consumer":
        change = ConfigChange("set", "consumer.session.timeout.ms", str(timeout_ms))
        admin.change_configs(Resource("group", group.name), [change])


def has_been_fenced(texts: list[str]) -> bool:
    return any("fenced" in text.lower() for text in texts)
