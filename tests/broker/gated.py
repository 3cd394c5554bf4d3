"""A simulated node whose requests pass a gate of the test's own, with or without fast paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cordwood.broker.broker import Broker
from cordwood.broker.handlers import HANDLERS
from cordwood.broker.handlers.produce import refuse_all
from cordwood.broker.role import broker_pipeline
from cordwood.net.api import RequestContext
from cordwood.net.gate import Gate
from cordwood.net.peers.channel import Channel
from cordwood.net.pipeline import Pipeline
from cordwood.net.principal import ANONYMOUS, Principal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.schema import Request, Response
from tests.broker.simulated import SimulatedNode

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")


class Guard:
    """An authorizer that refuses the requests of fast paths to some principals."""

    def __init__(self) -> None:
        self.generation = 0
        self._refused: frozenset[Principal] = frozenset()

    def refuse(self, *principals: Principal) -> None:
        """Allows only these from now on."""
        self._refused = frozenset(principals)
        self.generation += 1

    def refusal(self, request: Request[Any], context: RequestContext) -> Response | None:
        if context.principal not in self._refused:
            return None
        match request:
            case ProduceRequest():
                return refuse_all(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            case HeartbeatRequest():
                return HeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            case ConsumerGroupHeartbeatRequest():
                return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return None


class Meter:
    """Quotas that note what they are asked, and throttle each request as `throttle` says by its number."""

    def __init__(self, throttle: Callable[[int], int] = lambda _number: 0) -> None:
        self.asked: list[tuple[Principal, str, int, int]] = []
        self._throttle = throttle

    def throttle_time_ms(self, principal: Principal, client_id: str, api_key: int, request_bytes: int) -> int:
        self.asked.append((principal, client_id, api_key, request_bytes))
        return self._throttle(len(self.asked))


def serve(node: SimulatedNode, gate: Gate, *, short_way: bool = True) -> Pipeline[Broker]:
    """Chooses how connections are served that are opened from here on."""
    if short_way:
        pipeline = broker_pipeline(node.broker, HANDLERS, gate)
    else:
        pipeline = Pipeline(node.broker, HANDLERS, gate, node.broker.replicas.disk_failed)
    node.node.server.accept(pipeline)
    return pipeline


async def connect_as(node: SimulatedNode, principal: Principal = ANONYMOUS) -> Channel:
    before = {connection.info.id for connection in node.node.server}
    channel = await node.connect()
    (new,) = (connection.info for connection in node.node.server if connection.info.id not in before)
    new.become(principal)
    return channel
