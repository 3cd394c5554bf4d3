"""Groups of both protocols, and of both at once, whose members come and go while the node is crashed and started."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from cordwood.sim.checks import CLUSTER_CHECKS
from cordwood.sim.clients.admin import Admin
from cordwood.sim.clients.client import Run
from cordwood.sim.clients.producers import PlainProducer
from cordwood.sim.groups.classic import ClassicMember
from cordwood.sim.groups.consumer import ConsumerMember
from cordwood.sim.groups.grower import Grower
from cordwood.sim.groups.member import GroupPlan, Member
from cordwood.sim.groups.watcher import Watcher
from cordwood.sim.histories.history import History, Promise
from cordwood.sim.library.member import LibraryMember
from cordwood.sim.partition import Partition, partition_name

from .base import LIBRARY, Workload, busy_settings
from .stage import CLUSTER_PROMISES, Stage, cluster_layout, cluster_settings

_DURATION_S = 20.0
# In a cluster more happens at a time.
_CLUSTER_DURATION_S = 10.0
_STATIC = 0.3
_COOPERATIVE = 0.5
_GROWTH = 0.5
_MAX_MEMBERS = 5
# Far longer than any session timeout of earlier members.
_SETTLING_S = 30.0
_LOOK_S = 0.2
_Member = Member | LibraryMember
_Kind = Callable[[Run, str, GroupPlan, str | None], _Member]
_KINDS = ((ClassicMember,), (ConsumerMember,), (ClassicMember, ConsumerMember))
_LIBRARY_KINDS: dict[object, _Kind] = {
    ClassicMember: partial(LibraryMember, protocol="classic"),
    ConsumerMember: partial(LibraryMember, protocol="consumer"),
}


def group_settings(source: Random) -> dict[str, str]:
    """Sessions that are over soon."""
    return {
        "offsets.topic.num.partitions": str(source.randint(1, 3)),
        "group.initial.rebalance.delay.ms": source.choice(("0", "0", "700")),
        "group.min.session.timeout.ms": "100",
        "group.consumer.min.session.timeout.ms": "100",
        "group.consumer.min.heartbeat.interval.ms": "50",
        "group.consumer.heartbeat.interval.ms": "100",
        "group.consumer.session.timeout.ms": str(source.choice((500, 1_000, 2_000))),
        "group.consumer.migration.policy": source.choice(("bidirectional", "bidirectional", "disabled")),
    }


def new_plan(run: Run, source: Random, group_id: str, topics: list[str], *, has_both_protocols: bool) -> GroupPlan:
    """The session timeout of consumer groups is the node's; classic members request the same one here."""
    session_timeout_s = run.machine.config.integer("group.consumer.session.timeout.ms") / 1000
    rebalance_timeout_s = source.choice((0.5, 1.5, 4.0))
    wanted = tuple(source.sample(topics, source.randint(1, len(topics))))
    is_cooperative = source.random() < _COOPERATIVE
    return GroupPlan(group_id, wanted, session_timeout_s, rebalance_timeout_s, has_both_protocols, is_cooperative)


def _settings(history: History, source: Random) -> dict[str, str]:
    return {
        **busy_settings(history, source),
        **group_settings(source),
        "num.partitions": str(source.randint(1, 4)),
    }


def _replicated_settings(history: History, source: Random) -> dict[str, str]:
    return {**_settings(history, source), **cluster_settings(source)}


async def _main(run: Run, source: Random) -> None:
    stage = await Stage.open(run)
    topics = ["first", "second"][: source.randint(1, 2)]
    await Admin(run, "admin").make_topics(topics)
    stage.begin()
    plans: list[GroupPlan] = []
    members: list[_Member] = []
    watchers: list[Watcher] = []
    for number in range(source.randint(1, 3)):
        kinds: Sequence[_Kind] = source.choice(_KINDS)
        plan = new_plan(run, source, f"group-{number}", topics, has_both_protocols=len(kinds) > 1)
        plans.append(plan)
        members += _members(run, source, plan, kinds)
        watchers.append(Watcher(run, f"watcher-{number}", plan.group_id))
    producers = [PlainProducer(run, f"plain-{number}") for number in range(source.randint(1, 2))]
    work = [client.work() for group in (members, watchers, producers) for client in group]
    if source.random() < _GROWTH:
        work.append(Grower(run, "grower").work())
    clients = [asyncio.ensure_future(one) for one in work]
    await asyncio.sleep(_DURATION_S if run.cluster is None else _CLUSTER_DURATION_S)
    run.is_over = True
    await asyncio.gather(*clients)
    judge = await stage.close(source)
    if judge is None:
        return
    await _settle(run, source, plans)
    for watcher in watchers:
        await watcher.look(judge)
    await stage.read_everything(judge)


def _members(run: Run, source: Random, plan: GroupPlan, kinds: Sequence[_Kind]) -> list[_Member]:
    members: list[_Member] = []
    for number in range(source.randint(1, _MAX_MEMBERS)):
        instance_id = f"instance-{number}" if source.random() < _STATIC else None
        kind = _ours_or_not(source, source.choice(kinds))
        members.append(kind(run, f"{plan.group_id}-member-{number}", plan, instance_id))
    return members


def _ours_or_not(source: Random, kind: _Kind) -> _Kind:
    return _LIBRARY_KINDS[kind] if source.random() < LIBRARY else kind


async def _settle(run: Run, source: Random, plans: list[GroupPlan]) -> None:
    """Well-behaved members end up owning all partitions."""
    shares: list[tuple[GroupPlan, list[_Member]]] = []
    for plan in plans:
        kind = _ours_or_not(source, source.choice((ClassicMember, ConsumerMember)))
        shares.append((plan, [kind(run, f"{plan.group_id}-calm-{number}", plan, None) for number in range(2)]))
    members = [member for _, some in shares for member in some]
    for member in members:
        member.is_calm = True
    clients = [asyncio.ensure_future(member.work()) for member in members]
    deadline_s = run.now_s + _SETTLING_S
    while run.now_s < deadline_s and any(_left_over(run, plan, some) for plan, some in shares):
        await asyncio.sleep(_LOOK_S)
    run.history.groups.left_over = [
        f"{plan.group_id}: {partition_name(partition)}"
        for plan, some in shares
        for partition in _left_over(run, plan, some)
    ]
    run.is_over = True
    await asyncio.gather(*clients)
    run.is_over = False


def _left_over(run: Run, plan: GroupPlan, members: list[_Member]) -> list[Partition]:
    wanted = [partition for partition in run.partitions if partition[0] in plan.topics]
    return [partition for partition in wanted if not any(partition in member.hands for member in members)]


GROUPS = Workload("groups", {Promise.DURABLE: 5, Promise.KILLS: 4, Promise.PREFIX: 1}, _settings, _main)
CLUSTER_GROUPS = Workload(
    "cluster-groups", CLUSTER_PROMISES, _replicated_settings, _main, CLUSTER_CHECKS, cluster_layout
)
