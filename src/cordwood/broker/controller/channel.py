"""The way to the controller: a Kafka request in, its response out, wherever the controller is."""

from __future__ import annotations

from typing import Protocol

from cordwood.net.api import RequestContext
from cordwood.wire.schema import Request, ResponseT


class ControllerChannel(Protocol):
    async def ask(self, request: Request[ResponseT], context: RequestContext | None = None) -> ResponseT:
        """Returns the controller's response. Where there is none it is one with an error: NOT_CONTROLLER while no
        controller is active, REQUEST_TIMED_OUT where the controller may still act on the request. Both are retriable.
        `context` is that of the client whose request is forwarded; None for a request of the broker's own."""
