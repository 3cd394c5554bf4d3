"""The client's assignors: what Kafka's own answer, and what holds for any group."""

import gzip
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    GroupTopics,
    RebalanceProtocol,
    Stateless,
    Subscription,
)
from cordwood.client.consumer.assignors.choice import BUILT_IN, choose_assignors, common_protocol
from cordwood.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from cordwood.client.consumer.assignors.moves import Moves
from cordwood.client.consumer.assignors.range import RangeAssignor
from cordwood.client.consumer.assignors.round_robin import RoundRobinAssignor
from cordwood.client.consumer.assignors.sticky import StickyAssignor, write_user_data
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import BadSetting

VECTORS = Path(__file__).parents[2] / "vectors" / "assignors.jsonl.gz"

Shares = Mapping[str, Sequence[TopicPartition]]


# ---- Kafka's own answers


def kafka_cases() -> list[dict[str, Any]]:
    with gzip.open(VECTORS, "rt") as lines:
        cases = [json.loads(line) for line in lines]
    return [case for case in cases if case["assignor"].startswith("client-")]


CASES = kafka_cases()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_assignment_is_kafkas(case: dict[str, Any]) -> None:
    assignor = BUILT_IN[case["assignor"].removeprefix("client-")]()
    subscriptions = {member["memberId"]: subscription(member) for member in case["members"]}
    given = shares(assignor.assign(GroupTopics(case["topics"]), subscriptions))
    kafkas = {member: partitions(share) for member, share in case["assignment"].items()}
    assert_each_reads_what_it_gets(given, subscriptions)
    assert imbalance(given) == imbalance(kafkas)
    assert moved(given, case) == case["moved"]
    if case["orderSensitive"]:
        assert all_of(given) == all_of(kafkas)
    else:
        assert given == kafkas


def test_all_vectors_exist() -> None:
    counts = {name: sum(case["assignor"] == f"client-{name}" for case in CASES) for name in BUILT_IN}
    assert counts == {"range": 54, "roundrobin": 59, "sticky": 72, "cooperative-sticky": 68}


def subscription(member: Mapping[str, Any]) -> Subscription:
    return Subscription(
        topics=member["topics"],
        user_data=None if member["userData"] is None else bytes.fromhex(member["userData"]),
        owned_partitions=partitions(member["ownedPartitions"]),
        generation_id=member["generationId"],
        group_instance_id=member["groupInstanceId"],
    )


def partitions(share: Sequence[tuple[str, int]]) -> list[TopicPartition]:
    return [TopicPartition(topic, index) for topic, index in share]


def shares(assignments: Mapping[str, Assignment]) -> dict[str, list[TopicPartition]]:
    return {member: list(assignment.partitions) for member, assignment in assignments.items()}


def imbalance(given: Shares) -> int:
    sizes = [len(share) for share in given.values()]
    return max(sizes) - min(sizes)


def moved(given: Shares, case: Mapping[str, Any]) -> int:
    return sum(
        len(set(partitions(member.get("previous", ()))) - set(given[member["memberId"]])) for member in case["members"]
    )


def all_of(given: Shares) -> list[TopicPartition]:
    return sorted(partition for share in given.values() for partition in share)


def assert_each_reads_what_it_gets(given: Shares, subscriptions: Mapping[str, Subscription]) -> None:
    assert set(given) == set(subscriptions)
    for member, share in given.items():
        assert {partition.topic for partition in share} <= set(subscriptions[member].topics)


# ---- user data


def test_sticky_user_data_has_kafkas_format() -> None:
    told = 0
    for case in CASES:
        if case["assignor"] != "client-sticky":
            continue
        for member in case["members"]:
            if member["userData"] is None:
                continue
            assignor = StickyAssignor()
            had = Assignment(partitions(member["previous"]))
            assignor.on_assignment(had, GroupMetadata("g", member["generationId"]))
            assert assignor.subscription_user_data(frozenset(member["topics"])) == bytes.fromhex(member["userData"])
            told += 1
    assert told > 100


def test_sticky_has_no_user_data_before_its_first_assignment() -> None:
    assert StickyAssignor().subscription_user_data(frozenset({"t"})) is None


def test_sticky_believes_the_first_version_of_the_user_data_too() -> None:
    """The first version has no generation."""
    had = {member: [TopicPartition("t", index)] for member, index in (("a", 2), ("b", 0), ("c", 1))}
    subscriptions = {
        member: Subscription(["t"], user_data=write_user_data(Assignment(share), 5)[:-4])
        for member, share in had.items()
    }
    assert shares(StickyAssignor().assign(GroupTopics({"t": 3}), subscriptions)) == had


@pytest.mark.parametrize("user_data", [b"", b"\x00", b"\x7f\xff\xff\xff", b"\x00\x00\x00\x01\x00\x05ab", b"\xff" * 9])
def test_sticky_ignores_unreadable_user_data(user_data: bytes) -> None:
    subscriptions = {"a": Subscription(["t"], user_data=user_data), "b": Subscription(["t"])}
    given = shares(StickyAssignor().assign(GroupTopics({"t": 4}), subscriptions))
    assert imbalance(given) == 0
    assert len(all_of(given)) == 4


def test_cooperative_sticky_sends_its_generation() -> None:
    assignor = CooperativeStickyAssignor()
    assert assignor.subscription_user_data(frozenset()) == b"\xff\xff\xff\xff"
    assignor.on_assignment(Assignment([]), GroupMetadata("g", 7))
    assert assignor.subscription_user_data(frozenset()) == b"\x00\x00\x00\x07"


def test_the_later_generation_wins_a_claimed_partition() -> None:
    part = TopicPartition("t", 0)
    subscriptions = {
        "old": Subscription(["t"], owned_partitions=[part], generation_id=3),
        "new": Subscription(["t"], owned_partitions=[part], generation_id=4),
    }
    given = shares(CooperativeStickyAssignor().assign(GroupTopics({"t": 2}), subscriptions))
    assert given == {"old": [TopicPartition("t", 1)], "new": [part]}


# ---- what holds for any group

TOPICS = ("a", "b", "c")


@st.composite
def groups(draw: st.DrawFn) -> tuple[GroupTopics, dict[str, Subscription]]:
    """Owned partitions may be claimed twice, and belong to deleted topics."""
    counts = {topic: draw(st.integers(1, 7)) for topic in TOPICS if draw(st.booleans())}
    everything = [TopicPartition(topic, index) for topic in TOPICS for index in range(8)]
    racks = {part: frozenset(draw(st.sets(st.sampled_from("xyz"), max_size=2))) for part in everything}
    same = draw(st.booleans())
    topics = draw(st.sets(st.sampled_from(TOPICS), min_size=1))
    subscriptions = {}
    for number in range(draw(st.integers(1, 5))):
        read = topics if same else draw(st.sets(st.sampled_from(TOPICS), min_size=1))
        owned = draw(st.lists(st.sampled_from(everything), max_size=6, unique=True))
        generation_id = draw(st.integers(-1, 3))
        subscriptions[f"m{number}"] = Subscription(
            sorted(read),
            user_data=write_user_data(Assignment(owned), generation_id),
            owned_partitions=owned,
            generation_id=generation_id,
            rack_id=draw(st.sampled_from([None, "x", "y"])),
            group_instance_id=draw(st.sampled_from([None, f"i{9 - number}"])),
        )
    return GroupTopics(counts, racks if draw(st.booleans()) else {}), subscriptions


@pytest.mark.parametrize("name", ["range", "roundrobin", "sticky"])
@given(groups())
def test_each_partition_goes_to_one_member_that_reads_it(
    name: str, group: tuple[GroupTopics, dict[str, Subscription]]
) -> None:
    topics, subscriptions = group
    given_out = shares(BUILT_IN[name]().assign(topics, subscriptions))
    read = {topic for said in subscriptions.values() for topic in said.topics}
    assert_each_reads_what_it_gets(given_out, subscriptions)
    assert all_of(given_out) == sorted(topics.partitions(read & topics.partition_counts.keys()))


@given(groups())
def test_sticky_shares_differ_by_one_where_all_read_the_same(
    group: tuple[GroupTopics, dict[str, Subscription]],
) -> None:
    topics, subscriptions = group
    same = {member: replace(said, topics=TOPICS) for member, said in subscriptions.items()}
    assert imbalance(shares(StickyAssignor().assign(topics, same))) <= 1


@given(groups())
def test_cooperative_sticky_leaves_owned_partitions_unassigned(
    group: tuple[GroupTopics, dict[str, Subscription]],
) -> None:
    """Claims of the latest generation; members behind it have lost their claims."""
    topics, subscriptions = group
    latest = max(said.generation_id for said in subscriptions.values())
    given_out = shares(CooperativeStickyAssignor().assign(topics, subscriptions))
    assert_each_reads_what_it_gets(given_out, subscriptions)
    owner = {
        partition: member
        for member, said in subscriptions.items()
        if said.generation_id == latest
        for partition in said.owned_partitions
    }
    for member, share in given_out.items():
        for partition in share:
            holder = owner.get(partition, member)
            assert holder == member or partition in subscriptions[member].owned_partitions


@given(groups())
def test_cooperative_sticky_gives_all_away_in_two_rounds(group: tuple[GroupTopics, dict[str, Subscription]]) -> None:
    """Where racks do not matter: what is far from its owner may be moved again."""
    topics, subscriptions = GroupTopics(group[0].partition_counts), group[1]
    for generation_id in (4, 5):
        given_out = shares(CooperativeStickyAssignor().assign(topics, subscriptions))
        subscriptions = {
            member: replace(said, owned_partitions=given_out[member], generation_id=generation_id)
            for member, said in subscriptions.items()
        }
    read = {topic for said in subscriptions.values() for topic in said.topics}
    again = shares(CooperativeStickyAssignor().assign(topics, subscriptions))
    assert all_of(again) == sorted(topics.partitions(read & topics.partition_counts.keys()))


def test_two_partitions_of_a_topic_do_not_swap_their_members() -> None:
    moves = Moves()
    moves.note(TopicPartition("t", 0), "a", "b")
    assert moves.instead(TopicPartition("t", 5), "b", "a") == TopicPartition("t", 0)
    assert moves.instead(TopicPartition("u", 5), "b", "a") == TopicPartition("u", 5)
    moves.note(TopicPartition("t", 0), "b", "a")
    assert moves.instead(TopicPartition("t", 5), "b", "a") == TopicPartition("t", 5)


# ---- racks (KIP-881)

RACKS = ("x", "y", "z")


def one_rack_each(topic: str, count: int) -> dict[TopicPartition, frozenset[str]]:
    return {TopicPartition(topic, index): frozenset({RACKS[index % 3]}) for index in range(count)}


@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_members_get_partitions_in_their_rack(name: str) -> None:
    racks = one_rack_each("t", 6)
    subscriptions = {f"m{rack}": Subscription(["t"], rack_id=rack) for rack in reversed(RACKS)}
    given_out = shares(BUILT_IN[name]().assign(GroupTopics({"t": 6}, racks), subscriptions))
    assert imbalance(given_out) == 0
    for member, share in given_out.items():
        assert all(member.removeprefix("m") in racks[partition] for partition in share)


@pytest.mark.parametrize("name", ["range", "sticky"])
def test_an_even_share_comes_before_a_near_one(name: str) -> None:
    racks = {TopicPartition("t", index): frozenset({"x"}) for index in range(4)} | {TopicPartition("u", 0): frozenset()}
    subscriptions = {"m1": Subscription(["t"], rack_id="x"), "m2": Subscription(["t"], rack_id="y")}
    given_out = shares(BUILT_IN[name]().assign(GroupTopics({"t": 4}, racks), subscriptions))
    assert imbalance(given_out) == 0


def test_sticky_moves_a_partition_to_a_member_that_is_near() -> None:
    racks = {TopicPartition("t", 0): frozenset({"x"}), TopicPartition("t", 1): frozenset({"y"})}
    subscriptions = {
        "m1": Subscription(["t"], rack_id="x", owned_partitions=[TopicPartition("t", 1)], generation_id=1),
        "m2": Subscription(["t"], rack_id="y", owned_partitions=[TopicPartition("t", 0)], generation_id=1),
    }
    given_out = shares(CooperativeStickyAssignor().assign(GroupTopics({"t": 2}, racks), subscriptions))
    # Each is let go of first.
    assert given_out == {"m1": [], "m2": []}


def test_range_keeps_topics_of_the_same_size_together_near_a_member() -> None:
    racks = one_rack_each("t", 3) | one_rack_each("u", 3)
    subscriptions = {f"m{rack}": Subscription(["t", "u"], rack_id=rack) for rack in reversed(RACKS)}
    given_out = shares(RangeAssignor().assign(GroupTopics({"t": 3, "u": 3}, racks), subscriptions))
    assert given_out == {
        f"m{rack}": [TopicPartition("t", index), TopicPartition("u", index)] for index, rack in enumerate(RACKS)
    }


# ---- the choice


class Cooperative(Stateless):
    name = "mine"
    supported_protocols = (RebalanceProtocol.COOPERATIVE,)

    def assign(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        return {member: Assignment([]) for member in subscriptions}


def test_a_member_is_cooperative_only_if_all_its_assignors_are() -> None:
    assert common_protocol(choose_assignors(["cooperative-sticky"])) is RebalanceProtocol.COOPERATIVE
    assert common_protocol(choose_assignors(["range", "cooperative-sticky"])) is RebalanceProtocol.EAGER
    mixed: list[str | Assignor] = ["cooperative-sticky", Cooperative()]
    assert common_protocol(choose_assignors(mixed)) is RebalanceProtocol.COOPERATIVE


def test_assignors_without_a_common_protocol_are_refused() -> None:
    with pytest.raises(BadSetting, match="range, mine have no rebalance protocol in common"):
        common_protocol(choose_assignors(["range", Cooperative()]))


@pytest.mark.parametrize("strategy", [[], ["rnage"], ["range", "range"]])
def test_a_choice_that_makes_no_sense_is_refused(strategy: list[str]) -> None:
    with pytest.raises(BadSetting, match="partition_assignment_strategy"):
        choose_assignors(strategy)


def test_assignors_accept_javas_names_too() -> None:
    (assignor,) = choose_assignors(["org.apache.kafka.clients.consumer.RoundRobinAssignor"])
    assert isinstance(assignor, RoundRobinAssignor)
