"""After any actions of members, topics and timers in a consumer group: no partition has two owners, its log equals its
state, and once it is undisturbed every partition has an owner."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.coordinator.groups.consumer.consumer_group import ConsumerGroup
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from tests.coordinator.consumer_stage import Owned, Stage, assigned, play

_TOPICS = ("orders", "refunds")
_SUBSCRIPTIONS = (("orders",), ("refunds",), _TOPICS, ())
_CLIENTS = 5
_ACTIONS = (
    "join",
    "come back",
    "heartbeat",
    "lost answer",
    "leave",
    "rest a while",
    "subscribe",
    "crash",
    "expression",
)
_EVENTS = ("wait", "wait long", "load", "refuse", "grow", "delete", "create")
_Step = tuple[str, int, int]
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(_ACTIONS), st.integers(0, _CLIENTS - 1), st.integers(0, 3)),
        st.tuples(st.sampled_from((*_EVENTS, "all", "all", "all")), st.integers(0, 1), st.integers(0, 3)),
    ),
    max_size=60,
)


class _Client:
    """A member as in KIP-848: it owns its assignment, and less as soon as the answer says so. Static if it has a
    name."""

    def __init__(self, number: int) -> None:
        self.instance_id = f"i-{number}" if number % 2 else None
        self._number = number
        self._lives = 0
        self.epoch = -1
        self.owned: Owned = set()
        self.topics: tuple[str, ...] = ("orders",)
        self.regex = ""
        # The coordinator's requests and answers; None: the next answer is complete.
        self._told: tuple[Owned, tuple[str, ...], str] | None = None

    @property
    def member_id(self) -> str:
        return f"m-{self._number}-{self._lives}"

    @property
    def is_member(self) -> bool:
        return self.epoch >= 0

    def join(self, stage: Stage, *, keeps_id: bool = False) -> None:
        self.owned = set()
        self.epoch = 0
        self._told = None
        if self.instance_id is not None and not keeps_id:
            # It has another process.
            self._lives += 1
        self._send(stage, is_lost=False)

    def heartbeat(self, stage: Stage, *, is_lost: bool = False) -> None:
        if self.is_member:
            self._send(stage, is_lost=is_lost)

    def leave(self, stage: Stage, epoch: int) -> None:
        if self.is_member:
            if self.instance_id is None:
                epoch = -1
            self.crash()
            with suppress(Refusal):
                stage.heartbeat(self.member_id, epoch, instance_id=self.instance_id)

    def crash(self) -> None:
        self.epoch = -1
        self.owned = set()

    def _send(self, stage: Stage, *, is_lost: bool) -> None:
        owned, topics, regex = self._told or (None, None, None)
        try:
            response = stage.heartbeat(
                self.member_id,
                self.epoch,
                owned=None if owned == self.owned else self.owned,
                instance_id=self.instance_id,
                rebalance_timeout_ms=60_000 if self._told is None else -1,
                subscribed_topic_names=None if topics == self.topics else list(self.topics),
                subscribed_topic_regex=None if regex == self.regex else self.regex,
            )
        except Refusal as refusal:
            self._told = None
            if refusal.error != ErrorCode.NOT_COORDINATOR:
                self.crash()
            return
        if is_lost:
            self._told = None
            return
        self._told = (self.owned, self.topics, self.regex)
        self.epoch = response.member_epoch
        told = assigned(response)
        if told is not None:
            self.owned = told


@settings(max_examples=150, deadline=None)
@given(steps=_STEPS, interval_ms=st.sampled_from(("0", "5000")))
def test_no_partition_is_two_members_and_in_the_end_each_is_ones(steps: list[_Step], interval_ms: str) -> None:
    async def test(stage: Stage) -> None:
        stage.create("orders", 3)
        clients = [_Client(number) for number in range(_CLIENTS)]
        for step in steps:
            await _take(stage, clients, step)
            _check_owners(stage, clients)
        stage.log.refusal = None
        await _settle(stage, clients)
        _check_all_are_owned(stage, clients)
        _check_log(stage)

    play(test, group_consumer_assignment_interval_ms=interval_ms)


async def _take(stage: Stage, clients: list[_Client], step: _Step) -> None:
    what, number, detail = step
    client = clients[number]
    match what:
        case "join":
            client.join(stage)
        case "come back":
            client.join(stage, keeps_id=True)
        case "heartbeat":
            client.heartbeat(stage)
        case "lost answer":
            client.heartbeat(stage, is_lost=True)
        case "leave":
            client.leave(stage, -1)
        case "rest a while":
            client.leave(stage, -2)
        case "subscribe":
            client.topics = _SUBSCRIPTIONS[detail]
        case "expression":
            client.regex = ("", "ord.*", ".*", "")[detail]
        case "crash":
            client.crash()
        case "all":
            for each in clients:
                each.heartbeat(stage)
        case "wait":
            await stage.wait(11)
        case "wait long":
            await stage.wait(50)
        case "load":
            stage.load_again()
        case "refuse":
            refusal = Refusal(ErrorCode.NOT_COORDINATOR, "nothing can be written")
            stage.log.refusal = None if stage.log.refusal else refusal
        case "grow":
            name = _TOPICS[number]
            if stage.partitions(name):
                stage.grow(name, len(stage.partitions(name)) + detail)
        case "delete":
            if stage.partitions(_TOPICS[number]):
                stage.delete(_TOPICS[number])
        case "create":
            if not stage.partitions(_TOPICS[number]):
                stage.create(_TOPICS[number], detail + 1)


async def _settle(stage: Stage, clients: list[_Client]) -> None:
    """Expires members that are gone, resolves regular expressions, and lets members reconcile."""
    for _ in range(12):
        for client in clients:
            client.heartbeat(stage)
        await stage.wait(11)


def _check_owners(stage: Stage, clients: list[_Client]) -> None:
    """Only members known to the coordinator: others do not know yet that they were removed."""
    group = stage.state.groups.get("g")
    if not isinstance(group, ConsumerGroup):
        return
    owned: Owned = set()
    for client in clients:
        if client.member_id in group.members and client.is_member:
            assert not owned & client.owned
            owned |= client.owned
    for member_id in group.members:
        assert ("consumer-session", "g", member_id) in stage.state.timers, f"{member_id} would stay for ever"


def _check_all_are_owned(stage: Stage, clients: list[_Client]) -> None:
    members = [client for client in clients if client.is_member]
    owned = [partition for client in members for partition in client.owned]
    topics = {
        topic
        for client in members
        for topic in _TOPICS
        if topic in client.topics or client.regex == ".*" or (client.regex == "ord.*" and topic == "orders")
    }
    assert sorted(owned) == sorted(stage.partitions(*topics))
    if members:
        assert stage.group.state_name == "Stable"


def _check_log(stage: Stage) -> None:
    loaded = stage.loaded_state().groups
    assert loaded.keys() == stage.state.groups.keys()
    for group_id, group in stage.state.groups.items():
        assert isinstance(group, ConsumerGroup)
        again = loaded[group_id]
        assert isinstance(again, ConsumerGroup)
        for name in ConsumerGroup.__slots__:
            if name not in ("metadata_checked_in", "timing"):
                assert getattr(again, name) == getattr(group, name), name
