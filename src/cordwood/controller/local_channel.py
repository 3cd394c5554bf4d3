"""The way to the controller for a broker in the same process."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from dataclasses import replace
from typing import Any

from cordwood.metadata.controller.error_response import error_response
from cordwood.net.api import Handler, OwnRequest, RequestContext
from cordwood.shard.refusal import Refusal
from cordwood.wire.schema import Request, ResponseT

from .controller import Controller
from .handlers import HANDLERS


class LocalChannel:
    """The `ControllerChannel` of a node that has both roles. A broker is answered as it would be over a connection."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    async def ask(self, request: Request[ResponseT], context: RequestContext | None = None) -> ResponseT:
        request_type = type(request)
        response: ResponseT = await _answer(
            _BY_KEY[request_type.api_key],
            self._controller,
            request,
            OwnRequest(request_type.stable_versions.high) if context is None else context,
        )
        return response


def answering(handlers: Iterable[Handler[Controller]]) -> list[Handler[Controller]]:
    """The handlers as connections are served with them: a Refusal becomes a response."""
    return [replace(handler, handle=_bound(handler)) for handler in handlers]


def _bound(handler: Handler[Controller]) -> Any:
    return lambda controller, request, context: _answer(handler, controller, request, context)


async def _answer(
    handler: Handler[Controller], controller: Controller, request: Request[Any], context: RequestContext
) -> Any:
    try:
        result = handler.handle(controller, request, context)
        return await result if isinstance(result, Coroutine) else result
    except Refusal as refusal:
        return error_response(request, refusal.error, context.version)


_BY_KEY = {handler.api_key: handler for handler in HANDLERS}
