"""The channel to the active controller: in this process, or on another node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from cordwood.metadata.controller.error_response import error_response
from cordwood.net.api import RequestContext
from cordwood.net.envelope import unwrap, wrap
from cordwood.net.peers.exceptions import ConnectionFailed, PeerError
from cordwood.net.peers.peer import Peer
from cordwood.runtime.network import Address
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.schema import Request, ResponseT

from .channel import ControllerChannel

# For requests without a timeout.
_TIMEOUT_MS = 30_000
# Back-off before another attempt, unless a new controller appears earlier.
_RETRY_S = 0.02
_RETRY_MAX_S = 0.5


class ActiveController(NamedTuple):
    node_id: int
    # None if the controller is on this node.
    address: Address | None


class RemoteChannel:
    """The `ControllerChannel` of a node in a cluster. A client's request goes to another node in an Envelope. It is
    retried, until its timeout, if the controller is no longer active or the connection breaks. As in Kafka, the
    controller may have executed it by then: the second response shows that (a topic that exists).

    `locate` returns the active controller, or None if none is known; call `changed` when that may have changed. `local`
    is the channel to this node's own controller.
    """

    def __init__(
        self,
        locate: Callable[[], ActiveController | None],
        local: ControllerChannel | None,
        new_peer: Callable[[], Peer],
    ) -> None:
        self._locate = locate
        self._local = local
        self._peer = new_peer()
        self._changed = asyncio.Event()
        self._on_interruption: list[Callable[[], None]] = []
        self._watching: asyncio.Task[None] | None = None

    def changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
        self._interrupted()

    def on_interruption(self, listener: Callable[[], None]) -> None:
        """Registers a listener, called when another controller may be active, or the connection to the active one
        broke."""
        self._on_interruption.append(listener)

    def _interrupted(self) -> None:
        for listener in self._on_interruption:
            listener()

    def _watch(self) -> None:
        if self._watching is None and self._on_interruption:
            self._watching = asyncio.get_running_loop().create_task(self._until_disconnected())

    async def _until_disconnected(self) -> None:
        try:
            await self._peer.until_disconnected()
        finally:
            self._watching = None
        self._interrupted()

    async def ask(self, request: Request[ResponseT], context: RequestContext | None = None) -> ResponseT:
        loop = asyncio.get_running_loop()
        timeout_ms = getattr(request, "timeout_ms", _TIMEOUT_MS)
        deadline = loop.time() + max(0, timeout_ms) / 1000
        version = type(request).stable_versions.high if context is None else context.version
        pause_s = _RETRY_S
        while True:
            # Before the request, so that changes during it are noticed.
            changed = self._changed
            response = await self._attempt(request, context, deadline - loop.time())
            if response is not None and not _is_refused(request, response, version):
                return response
            left_s = deadline - loop.time()
            if left_s <= 0:
                return response or error_response(request, ErrorCode.NOT_CONTROLLER, version)
            try:
                async with asyncio.timeout(min(pause_s, left_s)):
                    await changed.wait()
            except TimeoutError:
                pause_s = min(2 * pause_s, _RETRY_MAX_S)

    async def _attempt(
        self, request: Request[ResponseT], context: RequestContext | None, left_s: float
    ) -> ResponseT | None:
        """Returns None if no controller could be asked."""
        active = self._locate()
        if active is None:
            return None
        if active.address is None:
            assert self._local is not None
            return await self._local.ask(request, context)
        self._peer.move(active.address)
        try:
            response = await self._send(request, context, max(1, round(left_s * 1000)))
        except ConnectionFailed:
            return None
        except (PeerError, DecodeError) as error:
            raise Refusal(
                ErrorCode.UNSUPPORTED_VERSION, f"the active controller, node {active.node_id}: {error}"
            ) from error
        self._watch()
        return response

    async def _send(
        self, request: Request[ResponseT], context: RequestContext | None, timeout_ms: int
    ) -> ResponseT | None:
        if context is None:
            return await self._peer.send(request, timeout_ms)
        answer = await self._peer.send(wrap(request, context), timeout_ms)
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            return None
        if answer.error_code != ErrorCode.NONE:
            return error_response(request, ErrorCode(answer.error_code), context.version)
        return unwrap(request, context, answer)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self._peer.close()


def _is_refused(request: Request[ResponseT], response: ResponseT, version: int) -> bool:
    """True if the controller that answered is not active."""
    error = getattr(response, "error_code", None)
    if error is not None:
        return bool(error == ErrorCode.NOT_CONTROLLER)
    refused = error_response(request, ErrorCode.NOT_CONTROLLER, version)
    # The response to an empty request is empty, whichever controller sends it.
    return bool(response == refused != error_response(request, ErrorCode.NONE, version))
