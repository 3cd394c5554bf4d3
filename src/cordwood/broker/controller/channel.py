"""The channel to the controller, wherever it is: takes a Kafka request and returns the response."""

from __future__ import annotations

from typing import Protocol

from cordwood.net.api import RequestContext
from cordwood.wire.schema import Request, ResponseT


class ControllerChannel(Protocol):
    async def ask(self, request: Request[ResponseT], context: RequestContext | None = None) -> ResponseT:
        """Returns the controller's response, or one with a retriable error: NOT_CONTROLLER while no controller is
        active, REQUEST_TIMED_OUT if the controller may still act on the request. `context` is that of the client whose
        request is forwarded; None for the broker's own requests."""
