"""The fast path of a heartbeat gives the same answers and the same groups as the general path."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.broker.coordination.heartbeat_shortcut import HeartbeatShortcut
from cordwood.console.request_metrics import RequestMetrics
from cordwood.net.gate import Gate
from cordwood.net.peers.channel import Channel
from cordwood.sim.virtual.connection import SimConnection
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import decode_response, encode_request
from cordwood.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from cordwood.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from cordwood.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from cordwood.wire.schema import Request
from tests.broker.gated import ALICE, BOB, Guard, Meter, connect_as, serve
from tests.broker.measured import figures
from tests.broker.simulated import SimulatedNode, simulate, simulate_measured

TOPIC = "t"
CLASSIC, CONSUMER = "classic", "consumer"
MEMBERS = ("a", "b")
SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "group_initial_rebalance_delay_ms": "0",
    "group_min_session_timeout_ms": "1000",
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": "4000",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "1000",
}
GROUP_RESOURCE = 32

ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["beat", "beat", "beat", "beat", "join", "leave"]), st.sampled_from(MEMBERS)),
    st.tuples(st.just("wait"), st.sampled_from(["0.1", "3", "5"])),
    st.tuples(st.sampled_from(["grow", "interval", "disable", "enable"]), st.just("")),
)


class Groups:
    """A classic and a consumer group, and the answers to their members."""

    def __init__(self, node: SimulatedNode, channel: Channel) -> None:
        self.heard: list[bytes | str] = []
        self._node = node
        self._channel = channel
        # Each member's generation or epoch, and its heartbeat's bytes.
        self._ids: dict[str, tuple[str, int]] = {}
        self._epochs = dict.fromkeys(MEMBERS, 0)
        self._partitions = 1
        self._count = 0

    async def act(self, action: str, detail: str) -> None:
        match action:
            case "wait":
                await asyncio.sleep(float(detail))
            case "grow":
                self._partitions += 1
                topic = CreatePartitionsTopic(name=TOPIC, count=self._partitions, assignments=None)
                await self._ask(CreatePartitionsRequest(topics=[topic], timeout_ms=1000), 3)
            case "interval":
                self._count += 1
                config = AlterableConfig(name="consumer.heartbeat.interval.ms", config_operation=0)
                config.value = str(200 + self._count)
                resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=CONSUMER, configs=[config])
                await self._ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
            case "disable" | "enable":
                update = FeatureUpdateKey(feature="group.version", max_version_level=int(action == "enable"))
                update.upgrade_type = 1 if action == "enable" else 2
                await self._ask(UpdateFeaturesRequest(feature_updates=[update]), 1)
            case "join":
                await self._join_classic(detail)
                self._epochs[detail] = 0
                await self._beat_consumer(detail)
            case "leave":
                member_id, _ = self._ids.get(detail, ("unknown", 0))
                identity = MemberIdentity(member_id=member_id)
                await self._ask(LeaveGroupRequest(group_id=CLASSIC, members=[identity]), 5)
                self._epochs[detail] = -1
                await self._beat_consumer(detail)
            case "beat":
                member_id, generation = self._ids.get(detail, ("unknown", 1))
                self.heard.append(
                    await self._sent(
                        HeartbeatRequest(group_id=CLASSIC, generation_id=generation, member_id=member_id), 4
                    )
                )
                await self._beat_consumer(detail)

    async def _join_classic(self, name: str) -> None:
        """Alone: whoever else is in the group has to leave first, or is waited for without success."""
        request = JoinGroupRequest(
            group_id=CLASSIC,
            session_timeout_ms=4000,
            rebalance_timeout_ms=1000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        response = await self._channel.request(request, 9)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = response.member_id
            response = await self._channel.request(request, 9)
        self._ids[name] = (response.member_id, response.generation_id)
        if response.leader == response.member_id:
            sync = SyncGroupRequest(
                group_id=CLASSIC,
                generation_id=response.generation_id,
                member_id=response.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(member_id=response.member_id, assignment=b"all")],
            )
            await self._channel.request(sync, 5)

    async def _beat_consumer(self, name: str) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=CONSUMER, member_id=name, member_epoch=self._epochs[name])
        if self._epochs[name] == 0:
            request.rebalance_timeout_ms = 5000
            request.subscribed_topic_names = [TOPIC]
            request.topic_partitions = []
        response = await self._channel.request(request, 1)
        self.heard.append(repr(response))
        if response.error_code == ErrorCode.NONE:
            self._epochs[name] = response.member_epoch

    async def _ask(self, request: Request[Any], version: int) -> None:
        await self._channel.request(request, version)

    async def _sent(self, request: Request[Any], version: int) -> bytes:
        return bytes(await self._channel.exchange([encode_request(request, version, 7, "test")], 7))


@settings(max_examples=60, deadline=None)
@given(st.lists(ACTIONS, max_size=30))
def test_the_fast_path_returns_the_general_paths_response(actions: list[tuple[str, str]]) -> None:
    # Quiet first, so that something is known.
    actions = [("join", "a"), ("beat", "a"), ("beat", "a"), *actions]
    assert heard_after(actions, short_way=True) == heard_after(actions, short_way=False)


def heard_after(actions: list[tuple[str, str]], *, short_way: bool) -> list[bytes | str]:
    """The responses to members, and then the metrics."""
    heard: list[bytes | str] = []

    async def test(node: SimulatedNode, requests: RequestMetrics) -> None:
        await node.create(TOPIC)
        serve(node, Gate(quotas=Meter(lambda number: number % 3), measures=requests), short_way=short_way)
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key=CLASSIC), 3)
        groups = Groups(node, channel)
        for action, detail in actions:
            await groups.act(action, detail)
        heard.extend(groups.heard)
        heard.extend(figures(node, requests))

    simulate_measured(test, **SETTINGS)
    return heard


@pytest.mark.parametrize("protocol", [CLASSIC, CONSUMER])
def test_a_repeated_heartbeat_takes_the_fast_path_and_keeps_the_member_alive(protocol: str) -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC)
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key=CLASSIC), 3)
        groups = Groups(node, channel)
        await groups.act("join", "a")
        await groups.act("beat", "a")
        (connection,) = node.node.server
        shortcut = shortcut_of(node)
        (frame,) = (
            bytearray(known.beginning + b"\0\0\0\x2a" + key.removeprefix(connection.info.origin))
            for key, known in shortcut._known.items()
            if known.request.group_id == protocol
        )
        for _ in range(5):
            await asyncio.sleep(3)
            answer = shortcut.answer(frame, connection.info)
            assert answer is not None
            (encoded,) = answer
            assert bytes(memoryview(encoded)[4:8]) == b"\0\0\0\x2a"  # type: ignore[arg-type]
        await asyncio.sleep(5)
        assert shortcut.answer(frame, connection.info) is None

    simulate(test, **SETTINGS)


def test_a_rebalance_is_reported_to_members() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC)
        channel = await node.connect()
        await channel.request(FindCoordinatorRequest(key=CLASSIC), 3)
        groups = Groups(node, channel)
        for action in ("join", "beat", "beat"):
            await groups.act(action, "a")
        joining = asyncio.get_running_loop().create_task(Groups(node, await node.connect()).act("join", "b"))
        # Less than the rebalance lasts.
        await asyncio.sleep(0.5)
        await groups.act("beat", "a")
        quiet, told = (answer for answer in groups.heard[-4:] if isinstance(answer, bytes))
        assert decode_response(HeartbeatResponse, 4, quiet)[1].error_code == ErrorCode.NONE
        assert decode_response(HeartbeatResponse, 4, told)[1].error_code == ErrorCode.REBALANCE_IN_PROGRESS
        await joining

    simulate(test, **SETTINGS)


def shortcut_of(node: SimulatedNode) -> HeartbeatShortcut:
    assert node.node.broker_role is not None
    shortcut = node.node.broker_role.pipeline._shortcuts[HeartbeatRequest.api_key]
    assert isinstance(shortcut, HeartbeatShortcut)
    return shortcut


def test_a_connection_is_polled_lazily_while_it_has_only_heartbeats() -> None:
    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC)
        channel = await node.connect()
        find = FindCoordinatorRequest(key=CONSUMER)
        await channel.request(find, 3)
        groups = Groups(node, channel)
        await groups._beat_consumer("a")
        (served,) = node.node.server
        connection = served._connection
        assert isinstance(connection, SimConnection)
        patience = []
        for seconds in (1, 1, 1, 1, 0, 1, 1, 1, 1):
            await asyncio.sleep(seconds)
            await groups._beat_consumer("a")
            patience.append(connection.is_patient)
        # The fifth came too soon.
        assert patience == [False, False, True, True, False, False, False, True, True]
        await channel.request(find, 3)
        assert not connection.is_patient

    simulate(test, **SETTINGS)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from(["alice", "bob", "refuse nobody", "refuse alice", "refuse bob"]), max_size=30))
def test_clients_do_not_share_permissions(actions: list[str]) -> None:
    actions = ["alice", "alice", *actions]
    assert told_each(actions, short_way=True) == told_each(actions, short_way=False)


def told_each(actions: list[str], *, short_way: bool) -> tuple[list[bytes], list[object]]:
    """The response to each client that sends heartbeats of the same member, and the quota checks."""
    answers: list[bytes] = []
    asked: list[object] = []

    async def test(node: SimulatedNode) -> None:
        await node.create(TOPIC)
        guard, meter = Guard(), Meter()
        serve(node, Gate(guard, meter), short_way=short_way)
        channels = {"alice": await connect_as(node, ALICE), "bob": await connect_as(node, BOB)}
        await channels["alice"].request(FindCoordinatorRequest(key=CLASSIC), 3)
        groups = {name: Groups(node, channel) for name, channel in channels.items()}
        await groups["alice"].act("join", "a")
        groups["bob"]._ids, groups["bob"]._epochs = groups["alice"]._ids, groups["alice"]._epochs
        refused = {"refuse nobody": (), "refuse alice": (ALICE,), "refuse bob": (BOB,)}
        for action in actions:
            if action in refused:
                guard.refuse(*refused[action])
            else:
                await groups[action].act("beat", "a")
                answers.extend(str(heard).encode() for heard in groups[action].heard)
                groups[action].heard.clear()
        asked.extend(meter.asked)

    simulate(test, **SETTINGS)
    return answers, asked
