"""The server-side assignors: what Kafka's own answer, and what holds for any group."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.coordinator.groups.assignors import (
    ASSIGNORS,
    Assignment,
    GroupSpec,
    MemberSubscription,
    UnknownTopic,
    assign_range,
    assign_uniform,
)
from cordwood.wire.primitives import Uuid, uuid_from_text, uuid_text

VECTORS = Path(__file__).parent.parent.parent / "vectors" / "assignors.jsonl.gz"


@dataclass(frozen=True)
class Topics:
    """A describer over a table; a topic that is not in it does not exist."""

    counts: Mapping[Uuid, int]

    def partition_count(self, topic_id: Uuid) -> int:
        return self.counts.get(topic_id, -1)


# ---- Kafka's own answers


def kafka_cases() -> list[dict[str, Any]]:
    with gzip.open(VECTORS, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    return [case for case in cases if case["assignor"] in ("server-range", "server-uniform")]


CASES = kafka_cases()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_assignment_is_kafkas(case: dict[str, Any]) -> None:
    spec, topics = given_to_kafka(case)
    assignment = ASSIGNORS[case["assignor"].removeprefix("server-")](spec, topics)
    kafkas: Assignment = {member_id: partitions(share) for member_id, share in case["assignment"].items()}
    if not case["orderSensitive"]:
        assert readable(assignment) == readable(kafkas)
    assert everything_once(spec, topics, assignment)
    assert imbalance(assignment) == imbalance(kafkas)
    assert moved(spec, assignment) == case["moved"]


def given_to_kafka(case: dict[str, Any]) -> tuple[GroupSpec, Topics]:
    members = {
        member["memberId"]: MemberSubscription(
            rack_id=None,
            instance_id=member["instanceId"],
            topic_ids=frozenset(map(uuid_from_text, member["topicIds"])),
            assigned=partitions(member["previous"]),
        )
        for member in case["members"]
    }
    topics = Topics({uuid_from_text(topic["id"]): topic["partitions"] for topic in case["topics"]})
    return GroupSpec(members, is_homogeneous=case["subscriptionType"] == "HOMOGENEOUS"), topics


def partitions(share: Mapping[str, Iterable[int]]) -> dict[Uuid, frozenset[int]]:
    return {uuid_from_text(topic_id): frozenset(numbers) for topic_id, numbers in share.items()}


def readable(assignment: Assignment) -> dict[str, dict[str, list[int]]]:
    return {
        member_id: {uuid_text(topic_id): sorted(numbers) for topic_id, numbers in share.items()}
        for member_id, share in assignment.items()
    }


# ---- what holds of an assignment


def everything_once(spec: GroupSpec, topics: Topics, assignment: Assignment) -> bool:
    """Each partition of a subscribed topic is assigned to one member, and that one subscribes to it."""
    wanted = {topic_id for member in spec.members.values() for topic_id in member.topic_ids}
    expected = [(topic_id, number) for topic_id in wanted for number in range(topics.counts[topic_id])]
    assigned = [
        (topic_id, number)
        for member_id, share in assignment.items()
        for topic_id, numbers in share.items()
        for number in numbers
        if topic_id in spec.members[member_id].topic_ids
    ]
    strays = sum(sizes(assignment)) - len(assigned)
    return set(assignment) == set(spec.members) and strays == 0 and sorted(assigned) == sorted(expected)


def sizes(assignment: Assignment) -> list[int]:
    return [sum(map(len, share.values())) for share in assignment.values()]


def imbalance(assignment: Assignment) -> int:
    return max(sizes(assignment)) - min(sizes(assignment))


def moved(spec: GroupSpec, assignment: Assignment) -> int:
    """The number of partitions that a member had and lost."""
    return sum(
        len(numbers - assignment[member_id].get(topic_id, frozenset()))
        for member_id, member in spec.members.items()
        for topic_id, numbers in member.assigned.items()
    )


# ---- any group


MEMBER_IDS = st.text("abcdefghijklmnopqrstuvwxyz0123456789-", min_size=1, max_size=12)
TOPIC_IDS = st.binary(min_size=16, max_size=16)


@st.composite
def topic_tables(draw: st.DrawFn) -> Topics:
    return Topics(draw(st.dictionaries(TOPIC_IDS, st.integers(0, 20), min_size=1, max_size=6)))


@st.composite
def homogeneous_groups(draw: st.DrawFn) -> tuple[GroupSpec, Topics]:
    topics = draw(topic_tables())
    subscription = frozenset(draw(st.sets(st.sampled_from(sorted(topics.counts)))))
    member_ids = draw(st.sets(MEMBER_IDS, min_size=1, max_size=12))
    return new_group(dict.fromkeys(sorted(member_ids), subscription)), topics


@st.composite
def any_groups(draw: st.DrawFn) -> tuple[GroupSpec, Topics]:
    topics = draw(topic_tables())
    subscriptions = st.frozensets(st.sampled_from(sorted(topics.counts)))
    return new_group(draw(st.dictionaries(MEMBER_IDS, subscriptions, min_size=1, max_size=12))), topics


def new_group(subscriptions: Mapping[str, frozenset[Uuid]]) -> GroupSpec:
    members = {
        member_id: MemberSubscription(rack_id=None, instance_id=None, topic_ids=topic_ids, assigned={})
        for member_id, topic_ids in subscriptions.items()
    }
    return GroupSpec(members, is_homogeneous=len(set(subscriptions.values())) <= 1)


def assigned_group(spec: GroupSpec, assignment: Assignment) -> GroupSpec:
    """The group once it has been given an assignment."""
    members = {member_id: replace(member, assigned=assignment[member_id]) for member_id, member in spec.members.items()}
    return replace(spec, members=members)


def with_member(spec: GroupSpec, member_id: str) -> GroupSpec:
    """A group of one subscription, and one more member that has it too."""
    newcomer = replace(next(iter(spec.members.values())), assigned={})
    return replace(spec, members={**spec.members, member_id: newcomer})


def without_member(spec: GroupSpec, member_id: str) -> GroupSpec:
    return replace(spec, members={key: member for key, member in spec.members.items() if key != member_id})


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=any_groups())
def test_every_partition_goes_to_one_of_its_subscribers(name: str, group: tuple[GroupSpec, Topics]) -> None:
    assert everything_once(*group, ASSIGNORS[name](*group))


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=any_groups(), data=st.data())
def test_assignments_match_kafkas_through_changes_of_topics_and_members(
    name: str, group: tuple[GroupSpec, Topics], data: st.DataObject
) -> None:
    spec, topics = group
    assignment = ASSIGNORS[name](spec, topics)
    grown = Topics({topic_id: count + data.draw(st.integers(0, 5)) for topic_id, count in topics.counts.items()})
    member_ids = st.sampled_from(sorted(spec.members)) | MEMBER_IDS
    subscriptions = st.frozensets(st.sampled_from(sorted(topics.counts)))
    changed = new_group(data.draw(st.dictionaries(member_ids, subscriptions, min_size=1, max_size=12)))
    changed = assigned_group(changed, {key: assignment.get(key, {}) for key in changed.members})
    assert everything_once(changed, grown, ASSIGNORS[name](changed, grown))


@given(homogeneous_groups())
def test_uniform_shares_differ_by_one_at_most_where_all_subscribe_alike(group: tuple[GroupSpec, Topics]) -> None:
    assert imbalance(assign_uniform(*group)) <= 1


@given(homogeneous_groups())
def test_a_group_assigned_as_if_it_were_mixed_is_as_even(group: tuple[GroupSpec, Topics]) -> None:
    spec, topics = group
    assignment = assign_uniform(replace(spec, is_homogeneous=False), topics)
    assert everything_once(spec, topics, assignment)
    assert imbalance(assignment) <= 1


@given(any_groups())
def test_uniform_moves_nothing_when_nothing_changed(group: tuple[GroupSpec, Topics]) -> None:
    spec, topics = group
    assignment = assign_uniform(spec, topics)
    assert assign_uniform(assigned_group(spec, assignment), topics) == assignment


@given(homogeneous_groups(), MEMBER_IDS)
def test_only_the_joining_member_gets_partitions(group: tuple[GroupSpec, Topics], newcomer: str) -> None:
    spec, topics = group
    spec = without_member(spec, newcomer)
    if not spec.members:
        return
    grown = with_member(assigned_group(spec, assign_uniform(spec, topics)), newcomer)
    assignment = assign_uniform(grown, topics)
    assert imbalance(assignment) <= 1
    assert moved(grown, assignment) == sum(map(len, assignment[newcomer].values()))


@given(homogeneous_groups(), st.data())
def test_a_member_that_leaves_takes_nothing_from_the_others(
    group: tuple[GroupSpec, Topics], data: st.DataObject
) -> None:
    spec, topics = group
    leaver = data.draw(st.sampled_from(sorted(spec.members)))
    shrunk = without_member(assigned_group(spec, assign_uniform(spec, topics)), leaver)
    if shrunk.members:
        assert moved(shrunk, assign_uniform(shrunk, topics)) == 0


@pytest.mark.parametrize("name", ASSIGNORS)
@given(group=any_groups(), data=st.data())
def test_the_order_of_members_does_not_matter(name: str, group: tuple[GroupSpec, Topics], data: st.DataObject) -> None:
    spec, topics = group
    shuffled = {member_id: spec.members[member_id] for member_id in data.draw(st.permutations(sorted(spec.members)))}
    assert ASSIGNORS[name](replace(spec, members=shuffled), topics) == ASSIGNORS[name](spec, topics)


@given(any_groups())
def test_an_unchanged_assignment_is_the_same_mapping(group: tuple[GroupSpec, Topics]) -> None:
    spec, topics = group
    settled = assigned_group(spec, assign_uniform(spec, topics))
    for member_id, share in assign_uniform(settled, topics).items():
        assert share is settled.members[member_id].assigned


# ---- the range assignor's own


def test_range_cuts_topics_of_one_size_alike() -> None:
    orders, payments = bytes([1] * 16), bytes([2] * 16)
    spec = new_group(dict.fromkeys(("a", "b"), frozenset((orders, payments))))
    assert assign_range(spec, Topics({orders: 3, payments: 3})) == {
        "a": {orders: frozenset((0, 1)), payments: frozenset((0, 1))},
        "b": {orders: frozenset((2,)), payments: frozenset((2,))},
    }


def test_range_puts_static_members_first_by_their_instance_ids() -> None:
    topic = bytes([1] * 16)
    spec = new_group(dict.fromkeys(("a", "b", "c"), frozenset((topic,))))
    static = {"b": "instance-2", "c": "instance-1"}
    members = {key: replace(member, instance_id=static.get(key)) for key, member in spec.members.items()}
    assert assign_range(replace(spec, members=members), Topics({topic: 3})) == {
        "c": {topic: frozenset((0,))},
        "b": {topic: frozenset((1,))},
        "a": {topic: frozenset((2,))},
    }


# ---- the edges


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_group_without_members_is_assigned_nothing(name: str) -> None:
    assert ASSIGNORS[name](GroupSpec({}, is_homogeneous=True), Topics({})) == {}


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_a_topic_that_does_not_exist_is_refused_by_its_id(name: str, is_homogeneous: bool) -> None:
    topic = bytes([1] * 16)
    spec = replace(new_group({"a": frozenset((topic,))}), is_homogeneous=is_homogeneous)
    with pytest.raises(UnknownTopic, match=uuid_text(topic)):
        ASSIGNORS[name](spec, Topics({}))
