"""From a frame to its handler and back: the one way that every request takes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from typing import Any

from cordwood.net.api import Call, Handler
from cordwood.net.serving import Answer, BadRequest, ConnectionInfo, Reply
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Part
from cordwood.wire.exceptions import DecodeError, UnsupportedRequest
from cordwood.wire.frames import decode_request, encode_response_parts
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from cordwood.wire.messages.headers import RequestHeader
from cordwood.wire.messages.heartbeat import HeartbeatRequest
from cordwood.wire.messages.produce import ProduceRequest
from cordwood.wire.schema import Response, Versions

from .broker import Broker
from .handlers.api_versions import refused_version
from .heartbeat_shortcut import BEGINNINGS, HeartbeatShortcut
from .produce_shortcut import ProduceShortcut

# How a Produce begins, of any version that has a short way.
_PRODUCE = b"\0\0\0"


class Dispatch:
    """The `net.serving.Handler` of a node's listeners."""

    def __init__(
        self, broker: Broker, handlers: Iterable[Handler[Broker]], controller_listeners: Collection[str]
    ) -> None:
        # Makes the call of a request: metrics put one here that measures.
        self.new_call: Callable[[RequestHeader, ConnectionInfo, int], Call] = Call
        self._broker = broker
        self._produce = ProduceShortcut(broker)
        self._heartbeats = HeartbeatShortcut(broker)
        self._controller_listeners = frozenset(controller_listeners)
        self._on_brokers = {handler.api_key: handler for handler in handlers if "broker" in handler.listeners}
        self._on_controllers = {handler.api_key: handler for handler in handlers if "controller" in handler.listeners}

    def served_versions(self, listener: str) -> dict[int, Versions]:
        handlers = self._on_controllers if listener in self._controller_listeners else self._on_brokers
        return {api_key: handler.advertised for api_key, handler in handlers.items()}

    def __call__(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        if self.new_call is Call and connection.listener not in self._controller_listeners:
            answer: Answer = None
            if frame.startswith(_PRODUCE):
                answer = self._produce.answer(frame, connection)
            elif frame.startswith(BEGINNINGS):
                answer = self._heartbeats.answer(frame, connection)
            if answer is not None:
                return answer
        try:
            header, request = decode_request(frame)
        except UnsupportedRequest as error:
            if error.api_key == ApiVersionsRequest.api_key:
                # The one request that a client sends before it knows our versions: answered in the first one.
                return encode_response_parts(refused_version(), 0, error.correlation_id)
            raise BadRequest(str(error)) from None
        except DecodeError as error:
            raise BadRequest(str(error)) from None
        handlers = self._on_controllers if connection.listener in self._controller_listeners else self._on_brokers
        handler = handlers.get(header.request_api_key)
        if handler is None or header.request_api_version not in handler.advertised:
            raise BadRequest(
                f"{type(request).__name__} version {header.request_api_version} is not served on {connection.listener}"
            )
        if header.request_api_key == ProduceRequest.api_key:
            self._produce.learn(frame, request, header.request_api_version)
        call = self.new_call(header, connection, len(frame))
        try:
            result = handler.handle(self._broker, request, call)
        except DiskError as error:
            raise self._disk_failed(error) from error
        if isinstance(result, Response):
            parts = call.parts(result)
            if isinstance(request, HeartbeatRequest | ConsumerGroupHeartbeatRequest):
                self._heartbeats.learn(frame, header, request, result, parts, connection)
            return parts
        if result is None or isinstance(result, Reply):
            return result
        return self._encoded(call, result)

    async def _encoded(self, call: Call, result: Coroutine[Any, Any, Response | None]) -> list[Part] | None:
        try:
            response = await result
        except DiskError as error:
            raise self._disk_failed(error) from error
        return None if response is None else call.parts(response)

    def _disk_failed(self, error: DiskError) -> BadRequest:
        """A disk that fails under a request which has no error of its own for that costs the connection: its client
        asks again, and is told by the metadata what is left."""
        self._broker.replicas.disk_failed(error)
        return BadRequest(str(error))
