"""Names as long as the protocol allows."""

from __future__ import annotations

import asyncio

from cordwood.net.peers.channel import Channel
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from cordwood.wire.messages.sync_group import SyncGroupRequest
from cordwood.wire.primitives import MAX_STRING_BYTES
from tests.broker.simulated import SimulatedNode, simulate


def test_a_client_with_a_long_name_joins_a_group_without_side_effects() -> None:
    async def test(node: SimulatedNode) -> None:
        short = await node.connect()
        await short.request(FindCoordinatorRequest(key="g"), 3)
        address = node.node.addresses["PLAINTEXT"]
        network = node.world.network.host("other")
        # Uses characters of three bytes, so that the name is cut within one.
        name = "名" * (MAX_STRING_BYTES // 3)
        long = await Channel.open(network, address.host, address.port, client_id=name)
        join = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=20_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        joined = await asyncio.gather(*(channel.request(join, 3) for channel in (short, long)))
        assert [response.error_code for response in joined] == [ErrorCode.NONE, ErrorCode.NONE]
        synced = await asyncio.gather(
            *(
                channel.request(SyncGroupRequest(group_id="g", generation_id=1, member_id=response.member_id), 3)
                for channel, response in zip((short, long), joined, strict=True)
            )
        )
        assert [response.error_code for response in synced] == [ErrorCode.NONE, ErrorCode.NONE]

    simulate(test, offsets_topic_num_partitions="1", group_initial_rebalance_delay_ms="1000")
