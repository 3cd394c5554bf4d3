"""After any actions of members and timers a classic group's state is consistent and equals its log."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.coordinator.groups.classic.classic_group import ClassicGroup
from cordwood.coordinator.groups.classic.states import ClassicState
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.join_group import JoinGroupResponse
from tests.coordinator.classic_stage import GROUP, Asked, Stage, play

_PROTOCOLS = ("range:m", "range:n", "sticky:s range:m", "range:m sticky:s")
# The actions of one client; what all do; what happens to them.
_ALONE = ("join", "sync", "heartbeat", "leave")
_TOGETHER = {"all join": "join", "all sync": "sync", "all are alive": "heartbeat"}
_EVENTS = ("wait", "wait long", "load", "refuse")
_Step = tuple[str, int, int]


class _Client:
    """The knowledge of one client; it has a name if it is a static member."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.member_id = ""
        self.generation = -1
        self.joining: Asked[JoinGroupResponse] | None = None

    def hear(self) -> None:
        if self.joining is not None and not self.joining.waits:
            joined, self.joining = self.joining, None
            try:
                response = joined.response
            except Refusal:
                return
            if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
                self.member_id, self.generation = response.member_id, response.generation_id
            elif response.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""

    def act(self, stage: Stage, action: str, detail: int) -> None:
        try:
            self._ask(stage, action, detail)
        except Refusal as refusal:
            if refusal.error == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
        self.hear()

    def _ask(self, stage: Stage, action: str, detail: int) -> None:
        match action:
            case "join":
                self.joining = stage.join(self.member_id, instance_id=self.name, protocols=_PROTOCOLS[detail])
            case "sync":
                members = stage.group.members if GROUP in stage.state.groups else {}
                assignments = dict.fromkeys(list(members)[: detail + 1], "some")
                stage.sync(self.member_id, self.generation, instance_id=self.name, **assignments)
            case "heartbeat":
                stage.heartbeat(self.member_id, self.generation, self.name)
            case "leave":
                stage.leave(self.member_id)


_action = st.sampled_from((*_ALONE, *_TOGETHER, *_EVENTS, "settle"))
_steps = st.lists(st.tuples(_action, st.integers(0, 3), st.integers(0, 3)), min_size=10, max_size=60)


@settings(max_examples=150)
@given(_steps)
def test_a_group_is_consistent_after_every_step_and_as_its_log_has_it_when_it_rests(steps: list[_Step]) -> None:
    async def test(stage: Stage) -> None:
        clients = [_Client(None), _Client(None), _Client("one"), _Client("two")]
        # Once something was refused, the log says less than happened.
        may_differ = False
        for action, who, detail in steps:
            if action in _EVENTS:
                await _happen(stage, action, detail)
            elif action == "settle":
                await _settle(stage, clients, detail)
            else:
                for client in clients if action in _TOGETHER else clients[who : who + 1]:
                    client.act(stage, _TOGETHER.get(action, action), detail)
            may_differ = stage.log.refusal is not None or (may_differ and action != "load")
            if action != "refuse":
                stage.log.refusal = None
            for each in clients:
                each.hear()
            if GROUP in stage.state.groups:
                _check(stage.group)
                _check_timers(stage)
                if not may_differ:
                    _check_log(stage)

    play(test)


async def _happen(stage: Stage, event: str, detail: int) -> None:
    match event:
        case "wait":
            await stage.wait(2 * (detail + 1))
        case "wait long":
            await stage.wait(70)
        case "load":
            stage.load_again()
        case "refuse":
            # Until something else has happened.
            stage.log.refusal = Refusal(ErrorCode.NOT_ENOUGH_REPLICAS, "too few")


async def _settle(stage: Stage, clients: list[_Client], detail: int) -> None:
    for action in ("join", "join", "join"):
        for client in clients:
            client.act(stage, action, detail)
        await stage.wait(2)
    await stage.wait(1)
    for client in clients:
        client.hear()
        client.act(stage, "sync", detail)


def _check(group: ClassicGroup) -> None:
    members = group.members
    waiting = [member for member in members.values() if member.awaiting_join is not None]
    assert group.waiting_to_join == len(waiting)
    assert group.leader_id in members if members else group.leader_id is None
    assert group.static_members == {m.instance_id: m.member_id for m in members.values() if m.instance_id is not None}
    assert not group.pending_joins.keys() & members.keys()
    assert group.pending_syncs.keys() <= members.keys()
    assert +group._protocol_counts == Counter(name for member in members.values() for name, _ in member.protocols)
    # Every pending request will be answered.
    if waiting:
        assert group.state is ClassicState.PREPARING_REBALANCE
    if any(member.awaiting_sync is not None for member in members.values()):
        assert group.state is ClassicState.COMPLETING_REBALANCE
        assert group.leader_id in group.pending_syncs
    if group.pending_syncs:
        assert group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE)
    if group.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
        assert group.protocol_name is not None
        assert all(member.metadata(group.protocol_name) for member in members.values())
    assert bool(members) or group.state in (ClassicState.EMPTY, ClassicState.PREPARING_REBALANCE)


def _check_timers(stage: Stage) -> None:
    """Nothing is waited for without end."""
    group, timers = stage.group, stage.state.timers
    for member in group.members.values():
        assert member in timers or not member.may_expire
    if group.state is ClassicState.PREPARING_REBALANCE:
        assert ("join", GROUP) in timers
    if group.pending_syncs:
        assert ("sync", GROUP) in timers


def _check_log(stage: Stage) -> None:
    """A group at rest is loaded as it is, without the protocols that were not chosen."""
    group = stage.group
    if group.state not in (ClassicState.STABLE, ClassicState.EMPTY):
        return
    loaded = stage.loaded_state().groups[GROUP]
    assert isinstance(loaded, ClassicGroup)
    assert _said(loaded) == _said(group)


def _said(group: ClassicGroup) -> object:
    members = [
        (m.member_id, m.instance_id, m.session_timeout_ms, m.assignment, m.metadata(group.protocol_name))
        for m in group.members.values()
    ]
    return group.state, group.generation, group.protocol_type, group.protocol_name, group.leader_id, sorted(members)
