"""Members of both protocols come and go in one group, which changes its protocol: no partition has two owners, and once
it is undisturbed every partition has an owner."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Protocol

from hypothesis import example, given, settings
from hypothesis import strategies as st

from cordwood.coordinator.groups.classic.join import Joining
from cordwood.coordinator.groups.classic_requests import heartbeat, join_group, leave_group, sync_group
from cordwood.coordinator.groups.consumer.consumer_protocol import read_assignment
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from cordwood.wire.messages.leave_group import MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.coordinator.consumer_stage import GROUP, Owned, Stage, assigned, play
from tests.coordinator.notation import parse_fields

_TOPIC, _PARTITIONS = "orders", 5
_SUBSCRIPTION: bytes = parse_fields("value=subscription(orders)", {})["value"]
_CLIENTS = 4
_Step = tuple[str, int]
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("begin", "begin", "leave", "crash", "act", "act")), st.integers(0, _CLIENTS - 1)),
        st.tuples(st.sampled_from(("all", "all", "all", "wait", "wait long", "load")), st.just(0)),
    ),
    max_size=50,
)


class _Client(Protocol):
    owned: Owned
    is_running: bool

    def act(self, stage: Stage) -> None:
        """Takes the next step."""

    def leave(self, stage: Stage) -> None: ...

    @property
    def id(self) -> str: ...


class _ConsumerClient:
    def __init__(self, number: int) -> None:
        self.id = f"m-{number}"
        self.is_running = False
        self.owned: Owned = set()
        self._epoch = 0

    def act(self, stage: Stage) -> None:
        try:
            response = stage.heartbeat(
                self.id,
                self._epoch,
                owned=self.owned,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[_TOPIC],
            )
        except Refusal:
            self._epoch, self.owned = 0, set()
        else:
            self._epoch, self.owned = response.member_epoch, assigned(response) or set()

    def leave(self, stage: Stage) -> None:
        self._epoch, self.owned = 0, set()
        with suppress(Refusal):
            stage.heartbeat(self.id, -1)


class _ClassicClient:
    """It gives up everything before it joins again, as eager assignors have it; if it leads, it deals."""

    def __init__(self) -> None:
        self.id = ""
        self.is_running = False
        self.owned: Owned = set()
        self._generation = -1
        self._leads: list[str] = []
        self._waits_for: Promise[Any] | None = None
        self._next = self._join

    def act(self, stage: Stage) -> None:
        if self._waits_for is None:
            try:
                result = self._next(stage)
            except Refusal as refusal:
                self._hear_error(refusal.error)
                return
            if isinstance(result, Promise):
                self._waits_for = result
            else:
                self._hear(stage, result)
        if self._waits_for is not None and self._waits_for.done:
            later, self._waits_for = self._waits_for, None
            try:
                self._hear(stage, later.result())
            except Refusal as refusal:
                self._hear_error(refusal.error)

    def leave(self, stage: Stage) -> None:
        leaving = [MemberIdentity(member_id=self.id)]
        with suppress(Refusal):
            stage.shard.decide(lambda state: leave_group(state, GROUP, leaving))
        self._forget()

    def _join(self, stage: Stage) -> Any:
        self.owned = set()
        request = JoinGroupRequest(
            group_id=GROUP,
            member_id=self.id,
            protocol_type="consumer",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocols=[JoinGroupRequestProtocol(name="range", metadata=_SUBSCRIPTION)],
        )
        joining = Joining(request, 3, "client", "/host", (("range", _SUBSCRIPTION),))
        return stage.shard.decide(lambda state: join_group(state, joining))

    def _sync(self, stage: Stage) -> Any:
        request = SyncGroupRequest(
            group_id=GROUP,
            member_id=self.id,
            generation_id=self._generation,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=_dealt(place, len(self._leads)))
                for place, member_id in enumerate(self._leads)
            ],
        )
        return stage.shard.decide(lambda state: sync_group(state, request))

    def _beat(self, stage: Stage) -> Any:
        request = HeartbeatRequest(group_id=GROUP, member_id=self.id, generation_id=self._generation)
        return stage.shard.decide(lambda state: heartbeat(state, request))

    def _hear(self, stage: Stage, response: Any) -> None:
        if response.error_code:
            self._hear_error(ErrorCode(response.error_code))
        elif isinstance(response, JoinGroupResponse):
            self.id, self._generation = response.member_id, response.generation_id
            self._leads = [member.member_id for member in response.members]
            self._next = self._sync
        elif isinstance(response, SyncGroupResponse):
            topics = read_assignment(response.assignment).assigned_partitions if response.assignment else []
            self.owned = {(stage.topic_id(topic.topic), number) for topic in topics for number in topic.partitions}
            self._next = self._beat

    def _hear_error(self, error: ErrorCode) -> None:
        if error == ErrorCode.UNKNOWN_MEMBER_ID:
            self._forget()
        self.owned = set()
        self._next = self._join

    def _forget(self) -> None:
        self.id, self.owned = "", set()
        self._waits_for = None
        self._next = self._join


def _dealt(place: int, count: int) -> bytes:
    numbers = list(range(place, _PARTITIONS, count))
    dealt: bytes = parse_fields(f"value=assignment(orders={numbers})", {})["value"]
    return dealt


@settings(max_examples=100, deadline=None)
@given(steps=_STEPS)
# One that comes back while its group is about to rebalance without it.
@example(steps=[("begin", 0), ("begin", 1), ("all", 0), ("leave", 0), ("begin", 0)])
def test_members_of_both_protocols_never_share_a_partition_and_in_the_end_have_all(steps: list[_Step]) -> None:
    async def test(stage: Stage) -> None:
        stage.create(_TOPIC, _PARTITIONS)
        clients: list[_Client] = [_ConsumerClient(0), _ClassicClient(), _ConsumerClient(1), _ClassicClient()]
        for step in steps:
            await _take(stage, clients, step)
            _check_owners(stage, clients)
        for _ in range(80):
            await _take(stage, clients, ("all", 0))
            await stage.wait(1)
            _check_owners(stage, clients)
        owned = [partition for client in clients if client.is_running for partition in client.owned]
        assert sorted(owned) == sorted(stage.partitions(_TOPIC) if any(c.is_running for c in clients) else [])

    play(test, group_initial_rebalance_delay_ms="0")


async def _take(stage: Stage, clients: list[_Client], step: _Step) -> None:
    what, number = step
    client = clients[number]
    match what:
        case "begin":
            client.is_running = True
        case "leave" if client.is_running:
            client.is_running = False
            client.leave(stage)
        case "crash":
            client.is_running = False
            client.owned = set()
        case "act" if client.is_running:
            client.act(stage)
        case "all":
            for each in clients:
                if each.is_running:
                    each.act(stage)
            await stage.wait(0.1)
        case "wait":
            await stage.wait(1)
        case "wait long":
            await stage.wait(30)
        case "load":
            stage.load_again()


def _check_owners(stage: Stage, clients: list[_Client]) -> None:
    """Only members known to the coordinator: others do not know yet that they were removed."""
    group: Any = stage.state.groups.get(GROUP)
    owned: Owned = set()
    for client in clients:
        if client.is_running and group is not None and client.id in group.members:
            assert not owned & client.owned
            owned |= client.owned
