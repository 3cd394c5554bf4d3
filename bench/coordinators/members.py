"""Members of groups that do what clients do, each over its connection: what a broker spends on them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from bench.nodes.brokers import Cordwood
from bench.nodes.wire_client import CLIENT_ID
from cordwood.net.peers.channel import Channel
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.codec import encode
from cordwood.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from cordwood.wire.messages.data.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from cordwood.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TOPIC = "orders"
SESSION_TIMEOUT_MS = 300_000
PATIENCE_S = 120.0

HEARTBEAT_VERSION = 4
# The last one in which a member need not come twice to get its id.
JOIN_VERSION = 3
SYNC_VERSION = 3
CONSUMER_VERSION = 1


class Connections:
    """One for each member: a pending join blocks later requests."""

    def __init__(self, broker: Cordwood) -> None:
        self._address = broker.address
        self._network = SocketNetwork()
        self._channels: list[Channel] = []

    async def one(self) -> Channel:
        host, port = self._address
        channel = await Channel.open(self._network, host, port, client_id=CLIENT_ID, timeout_s=PATIENCE_S)
        self._channels.append(channel)
        return channel

    def close(self) -> None:
        for channel in self._channels:
            channel.close()


class ClassicMember:
    def __init__(self, channel: Channel, group_id: str) -> None:
        self.channel = channel
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1

    async def join(self) -> JoinGroupResponse:
        subscription = b"\0\1" + encode(ConsumerProtocolSubscription(topics=[TOPIC], user_data=None), 1)
        request = JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=SESSION_TIMEOUT_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription)],
        )
        response = await self.channel.request(request, JOIN_VERSION)
        assert response.error_code == 0, response
        self.member_id, self.generation = response.member_id, response.generation_id
        return response

    async def sync(self, assignments: list[SyncGroupRequestAssignment]) -> None:
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=assignments,
        )
        response = await self.channel.request(request, SYNC_VERSION)
        assert response.error_code == 0, response

    def heartbeat(self) -> HeartbeatRequest:
        return HeartbeatRequest(group_id=self.group_id, generation_id=self.generation, member_id=self.member_id)

    async def beat(self) -> int:
        return (await self.channel.request(self.heartbeat(), HEARTBEAT_VERSION)).error_code


async def classic_generation(members: Sequence[ClassicMember], partitions: int) -> None:
    """All of them join, and get their shares from the leader."""
    joined = await asyncio.gather(*(member.join() for member in members))
    share = max(1, partitions // len(members))
    assignments = [
        SyncGroupRequestAssignment(member_id=member.member_id, assignment=_assignment(number * share, share))
        for number, member in enumerate(members)
    ]
    await asyncio.gather(
        *(
            member.sync(assignments if response.leader == member.member_id else [])
            for member, response in zip(members, joined, strict=True)
        )
    )


def _assignment(first: int, count: int) -> bytes:
    partitions = [TopicPartition(topic=TOPIC, partitions=list(range(first, first + count)))]
    return b"\0\1" + encode(ConsumerProtocolAssignment(assigned_partitions=partitions, user_data=None), 1)


class ConsumerMember:
    def __init__(self, channel: Channel, group_id: str, member_id: str) -> None:
        self.channel = channel
        self.group_id = group_id
        self.member_id = member_id
        self.epoch = 0
        self.heartbeat_interval_ms = 0
        self._owned: list[RequestTopicPartitions] = []
        # Its partitions have changed, and the coordinator must be told.
        self._has_news = True

    def heartbeat(self) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group_id, member_id=self.member_id, member_epoch=self.epoch
        )
        if self.epoch == 0:
            request.rebalance_timeout_ms = SESSION_TIMEOUT_MS
            request.subscribed_topic_names = [TOPIC]
        if self._has_news:
            request.topic_partitions = self._owned
        return request

    async def beat(self) -> int:
        request = self.heartbeat()
        self._has_news = False
        response = await self.channel.request(request, CONSUMER_VERSION)
        if not response.error_code:
            self._take(response)
        return response.error_code

    def _take(self, response: ConsumerGroupHeartbeatResponse) -> None:
        self.epoch = response.member_epoch
        self.heartbeat_interval_ms = response.heartbeat_interval_ms
        if response.assignment is not None:
            self._owned = [
                RequestTopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                for topic in response.assignment.topic_partitions
            ]
            self._has_news = True

    @property
    def owned(self) -> int:
        return sum(len(topic.partitions) for topic in self._owned)


async def until_reconciled(members: Sequence[ConsumerMember], partitions: int) -> int:
    """Heartbeats of all of them, round after round, until everything is owned and nothing changes; how many rounds."""
    rounds = 0
    while True:
        rounds += 1
        errors: list[Any] = await asyncio.gather(*(member.beat() for member in members))
        assert not any(errors), errors
        if (
            sum(member.owned for member in members) == partitions
            and not any(member._has_news for member in members)
            and len({member.epoch for member in members}) == 1
        ):
            return rounds
