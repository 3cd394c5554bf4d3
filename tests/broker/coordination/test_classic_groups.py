"""The requests of the classic protocol in every version, over a connection to a node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from cordwood.net.peers.channel import Channel
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_groups import DescribeGroupsRequest
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from cordwood.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from cordwood.wire.schema import Request
from tests.broker.simulated import AT_ONCE_S, SimulatedNode, simulate

GROUP = "g"
_SETTINGS = {"offsets_topic_num_partitions": "1", "group_initial_rebalance_delay_ms": "0"}
_APIS: Sequence[type[Request[Any]]] = (
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    DescribeGroupsRequest,
)
_LATEST = {api: api.stable_versions.high for api in _APIS}
_VERSIONS = [(api, version) for api in _APIS for version in api.stable_versions]


async def _client(node: SimulatedNode) -> Channel:
    channel = await node.connect()
    await channel.request(FindCoordinatorRequest(key=GROUP), 3)
    return channel


async def _join(channel: Channel, version: int = 9, **fields: Any) -> JoinGroupResponse:
    request = JoinGroupRequest(
        group_id=GROUP,
        session_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        **{"rebalance_timeout_ms": 60_000, **fields},
    )
    response = await channel.request(request, version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = response.member_id
        response = await channel.request(request, version)
    return response


@pytest.mark.parametrize(("api", "version"), _VERSIONS, ids=lambda part: getattr(part, "__name__", f"v{part}"))
def test_a_member_joins_syncs_lives_and_leaves_in_every_version(api: type[Request[Any]], version: int) -> None:
    versions = {**_LATEST, api: version}

    async def test(node: SimulatedNode) -> None:
        channel = await _client(node)

        async def ask(request: Request[Any]) -> Any:
            response = await channel.request(request, versions[type(request)])
            assert not getattr(response, "error_code", 0)
            return response

        joined = await _join(channel, versions[JoinGroupRequest])
        member_id = joined.member_id
        assert (joined.error_code, joined.generation_id, joined.leader) == (0, 1, member_id)
        assert [member.member_id for member in joined.members] == [member_id]

        assignments = [SyncGroupRequestAssignment(member_id=member_id, assignment=b"all")]
        sync = SyncGroupRequest(group_id=GROUP, generation_id=1, member_id=member_id, assignments=assignments)
        if versions[SyncGroupRequest] >= 5:
            sync.protocol_type, sync.protocol_name = "consumer", "range"
        assert (await ask(sync)).assignment == b"all"
        await ask(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id))
        assert await _state(ask) == "Stable"

        leave = LeaveGroupRequest(group_id=GROUP)
        if versions[LeaveGroupRequest] >= 3:
            leave.members = [MemberIdentity(member_id=member_id)]
        else:
            leave.member_id = member_id
        left = await ask(leave)
        assert [member.error_code for member in left.members] in ([], [0])
        assert await _state(ask) == "Empty"

    async def _state(ask: Any) -> str:
        described = await ask(DescribeGroupsRequest(groups=[GROUP]))
        state: str = described.groups[0].group_state
        return state

    simulate(test, **_SETTINGS)


@pytest.mark.parametrize("version", list(JoinGroupRequest.stable_versions))
def test_a_refused_join_is_encodable_in_every_version(version: int) -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await _client(node)
        refused = await _join(channel, version, member_id="nobody")
        assert (refused.error_code, refused.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "nobody")

    simulate(test, **_SETTINGS)


@pytest.mark.parametrize("version", [0, 4, 9])
def test_a_join_refused_after_a_wait_is_encodable_in_every_version(version: int) -> None:
    async def test(node: SimulatedNode) -> None:
        first, second = await _client(node), await _client(node)
        member_id = (await _join(first)).member_id
        waiting = asyncio.create_task(_join(second, version))
        # A rebalance is in progress, and the newcomer waits for the first member.
        await _until_rebalancing(first, member_id)
        described = await first.request(DescribeGroupsRequest(groups=[GROUP]), 6)
        newcomer = next(m.member_id for m in described.groups[0].members if m.member_id != member_id)
        await first.request(LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=newcomer)]), 5)
        assert (await waiting).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    simulate(test, **_SETTINGS)


async def _until_rebalancing(channel: Channel, member_id: str) -> None:
    while True:
        alive = await channel.request(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id), 4)
        if alive.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            described = await channel.request(DescribeGroupsRequest(groups=[GROUP]), 6)
            if len(described.groups[0].members) == 2:
                return


def test_a_client_that_disconnects_during_its_join_affects_nothing_else() -> None:
    async def test(node: SimulatedNode) -> None:
        first, second = await _client(node), await _client(node)
        member_id = (await _join(first)).member_id
        waiting = asyncio.create_task(_join(second, 3))
        await _until_rebalancing(first, member_id)
        second.close()
        with pytest.raises(Exception, match="closed"):
            await waiting
        # It is still a member, and out when its session is over.
        joined = await _join(first, member_id=member_id)
        assert (joined.generation_id, len(joined.members)) == (2, 2)

    simulate(test, **_SETTINGS)


def test_requests_behind_a_join_that_waits_are_answered_when_it_is() -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await _client(node)
        member_id = (await _join(channel)).member_id
        other = await _client(node)
        waiting = asyncio.create_task(_join(other, 3))
        await _until_rebalancing(channel, member_id)
        behind = asyncio.create_task(other.request(DescribeGroupsRequest(groups=[GROUP]), 6))
        await asyncio.sleep(AT_ONCE_S)
        assert not behind.done()
        await _join(channel, member_id=member_id)
        assert (await waiting).generation_id == 2
        assert (await behind).groups[0].group_id == GROUP

    simulate(test, **_SETTINGS)


def test_heartbeats_are_answered_without_checks_while_groups_are_loaded() -> None:
    async def test(node: SimulatedNode) -> None:
        channel = await _client(node)
        member_id = (await _join(channel)).member_id
        coordinator = node.broker.groups
        shard = coordinator._shards.pop(0)
        coordinator._loading[0] = asyncio.create_task(asyncio.sleep(0))
        alive = await channel.request(HeartbeatRequest(group_id=GROUP, generation_id=1, member_id=member_id), 4)
        refused = await _join(channel, member_id=member_id)
        assert (alive.error_code, refused.error_code) == (ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        del coordinator._loading[0]
        coordinator._shards[0] = shard

    simulate(test, **_SETTINGS)


def test_requests_behind_a_pending_join_wait_for_it() -> None:
    """As in Kafka; a member that closes while it joins gets the join's response first."""

    async def test(node: SimulatedNode) -> None:
        first, second = await _client(node), await node.connect()
        await _join(first)
        joining = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
        )
        joining.member_id = (await second.request(joining, 9)).member_id
        loop = asyncio.get_running_loop()
        joined = loop.create_task(second.request(joining, 9))
        await asyncio.sleep(AT_ONCE_S)
        identity = MemberIdentity(member_id=joining.member_id)
        left = loop.create_task(second.request(LeaveGroupRequest(group_id=GROUP, members=[identity]), 5))
        await asyncio.sleep(AT_ONCE_S)
        assert not joined.done()
        # The first does not join again within its session: the group continues without it.
        response = await joined
        assert (response.error_code, [member.member_id for member in response.members]) == (0, [joining.member_id])
        assert (await left).members[0].error_code == ErrorCode.NONE

    simulate(test, **_SETTINGS)
