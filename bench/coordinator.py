"""Coordinators: what requests, groups and loading cost, and how long it takes to assign a large group's partitions.

python -m bench.coordinator [ROW ...]
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from bench.coordinators import groups, loading, requests
from cordwood.coordinator.groups.assignors import ASSIGNORS, Assignment, Assignor, GroupSpec, MemberSubscription
from cordwood.wire.primitives import Uuid, uuid_text

MEMBERS = 500
PARTITIONS = 1_000
TOPICS = 10
ROUNDS = 20

SMALL_GROUPS = 1_000
SMALL_GROUP_MEMBERS = 5

_MEMBER_NUMBERS = count(1)


def main(rows: Sequence[str] = ()) -> None:
    known = {
        "assign": assign,
        "commits": requests.commits,
        "heartbeats": groups.heartbeats,
        "idle-groups": groups.idle_groups,
        "rebalance": groups.rebalance,
        "load": loading.main,
    }
    for name in rows or known:
        known[name]()


def assign() -> None:
    for name, assignor in ASSIGNORS.items():
        for subscriptions, group in (("one subscription", same_topics), ("two subscriptions", overlapping_topics)):
            figures = ", ".join(f"{what} {ms:.1f} ms" for what, ms in assignment_times(assignor, group).items())
            print(f"{name}, {MEMBERS} members on {PARTITIONS} partitions, {subscriptions}: {figures}")
        print(f"{name}, {SMALL_GROUPS} groups of {SMALL_GROUP_MEMBERS}: {small_groups_ms(assignor):.0f} ms")


class Topics:
    """Topics of one size."""

    def __init__(self, topic_count: int, partition_count: int) -> None:
        self.ids = [(number + 1).to_bytes(16) for number in range(topic_count)]
        self._partition_count = partition_count

    def partition_count(self, topic_id: Uuid) -> int:
        return self._partition_count


def same_topics(topics: Topics) -> Callable[[int], frozenset[Uuid]]:
    everything = frozenset(topics.ids)
    return lambda number: everything


def overlapping_topics(topics: Topics) -> Callable[[int], frozenset[Uuid]]:
    everything, most = frozenset(topics.ids), frozenset(topics.ids[1:])
    return lambda number: most if number % 2 else everything


def assignment_times(
    assignor: Assignor, subscription_of: Callable[[Topics], Callable[[int], frozenset[Uuid]]]
) -> dict[str, float]:
    """The fastest of several rounds, in milliseconds."""
    topics = Topics(TOPICS, PARTITIONS // TOPICS)
    topics_of = subscription_of(topics)
    best: dict[str, float] = {}
    for _ in range(ROUNDS):
        members = {new_member_id(): member(topics_of(number)) for number in range(MEMBERS)}
        newcomer = {new_member_id(): member(topics_of(0))}

        initial, ms = timed(assignor, members, topics)
        best["initial"] = min(ms, best.get("initial", ms))

        settled = {key: replace(old, assigned=initial[key]) for key, old in members.items()}
        _, ms = timed(assignor, {**settled, **newcomer}, topics)
        best["one more"] = min(ms, best.get("one more", ms))

        leaver = next(iter(settled))
        _, ms = timed(assignor, {key: old for key, old in settled.items() if key != leaver}, topics)
        best["one less"] = min(ms, best.get("one less", ms))
    return best


def small_groups_ms(assignor: Assignor) -> float:
    topics = Topics(1, 2 * SMALL_GROUP_MEMBERS)
    everything = frozenset(topics.ids)
    specs = [{new_member_id(): member(everything) for _ in range(SMALL_GROUP_MEMBERS)} for _ in range(SMALL_GROUPS)]
    return sum(timed(assignor, spec, topics)[1] for spec in specs)


def member(topic_ids: frozenset[Uuid]) -> MemberSubscription:
    return MemberSubscription(rack_id=None, instance_id=None, topic_ids=topic_ids, assigned={})


def new_member_id() -> str:
    """Never seen before: one that was is cheaper. As long as those that clients make for themselves."""
    return uuid_text(next(_MEMBER_NUMBERS).to_bytes(16))


def timed(assignor: Assignor, members: Mapping[str, MemberSubscription], topics: Topics) -> tuple[Assignment, float]:
    spec = GroupSpec(members, is_homogeneous=len({old.topic_ids for old in members.values()}) == 1)
    started = time.perf_counter()
    assignment = assignor(spec, topics)
    return assignment, (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    main(sys.argv[1:])
