"""A broker's dispatch: fast paths for a Produce and a heartbeat that repeat an earlier one, then the way of every
request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cordwood.net.api import Handler
from cordwood.net.dispatch import Dispatch
from cordwood.net.measures import Measures
from cordwood.net.serving import Answer, ConnectionInfo
from cordwood.runtime.network import Part
from cordwood.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from cordwood.wire.messages.headers import RequestHeader
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.schema import Request, Response

from .broker import Broker
from .heartbeat_shortcut import BEGINNINGS, HeartbeatShortcut
from .produce_shortcut import ProduceShortcut

# How a Produce begins, of any version that has a short way.
_PRODUCE = b"\0\0\0"


class BrokerDispatch(Dispatch[Broker]):
    def __init__(self, broker: Broker, handlers: Iterable[Handler[Broker]]) -> None:
        super().__init__(broker, handlers, broker.replicas.disk_failed)
        # For tests that compare them with the general way.
        self.uses_shortcuts = True
        self._produce = ProduceShortcut(broker)
        self._heartbeats = HeartbeatShortcut(broker)

    def measure(self, measures: Measures) -> None:
        super().measure(measures)
        self._produce.measure(measures)
        self._heartbeats.measure(measures)

    def __call__(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        if self.uses_shortcuts:
            answer: Answer = None
            if frame.startswith(_PRODUCE):
                answer = self._produce.answer(frame, connection)
            elif frame.startswith(BEGINNINGS):
                answer = self._heartbeats.answer(frame, connection)
            if answer is not None:
                return answer
        return super().__call__(frame, connection)

    def _decoded(self, frame: bytearray, header: RequestHeader, request: Request[Any]) -> None:
        if isinstance(request, ProduceRequest):
            self._produce.learn(frame, request, header.request_api_version)

    def _answered(
        self,
        frame: bytearray,
        header: RequestHeader,
        request: Request[Any],
        response: Response,
        parts: list[Part],
        connection: ConnectionInfo,
    ) -> None:
        if isinstance(request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
            self._heartbeats.learn(frame, header, request, response, parts, connection)
