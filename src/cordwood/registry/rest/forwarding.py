"""Passing a write on to the registry that writes at the moment."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from cordwood.net.http.client import HttpAnswer
from cordwood.net.http.client import request as http_request
from cordwood.registry.registry import Moved, Registry
from cordwood.registry.state.errors import RegistryError
from cordwood.runtime.network import Address, CannotConnect, NetworkError
from cordwood.runtime.tls import ClientTls

from .responses import error_response

_log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]

FORWARDED = "x-forward"
"""Confluent's: a node that receives it does not forward the request again."""

_PASSED_ON = ("content-type", "accept", "authorization")
_PORTS = {"http": 80, "https": 443}
_MOVED = 50004
"""Confluent's code for "the leader is not known": the registry that was asked does not write any more."""
_MOVED_HEADER = "x-registry-moved"
_FIRST_PAUSE_S = 0.02
_MAX_PAUSE_S = 0.5
_GRACE_S = 1.0


def forwarding(registry: Registry, handler: Handler) -> Handler:
    """Forwards to the registry that writes; if it cannot be reached, this one takes over."""

    async def handle(request: Request) -> Response:
        if FORWARDED in request.headers:
            return await _handled_here(registry, handler, request)
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + registry.settings.timeout_s
        pause_s = _FIRST_PAUSE_S
        while True:
            writer = registry.other_writer
            try:
                if writer is None:
                    return await handler(request)
                answer = await _forwarded(registry, writer, request, deadline_s - loop.time() + _GRACE_S)
                if answer is not None:
                    return _response(answer)
            except Moved:
                pass
            if loop.time() >= deadline_s:
                raise RegistryError(
                    50003,
                    f"Error while forwarding the request: no registry took it within {registry.settings.timeout_s:g} s",
                )
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _MAX_PAUSE_S)

    return handle


async def _handled_here(registry: Registry, handler: Handler, request: Request) -> Response:
    """A forwarded request is not forwarded again: the sender is told to look for the writer."""
    try:
        if registry.other_writer is not None:
            raise Moved(registry.other_writer)
        return await handler(request)
    except Moved as moved:
        error = RegistryError(_MOVED, f"The registry at {moved.url} writes now")
        response = error_response(error)
        response.headers[_MOVED_HEADER] = "true"
        return response


async def _forwarded(registry: Registry, writer: str, request: Request, timeout_s: float) -> HttpAnswer | None:
    """None if the request has to go elsewhere. Raises `RegistryError`."""
    try:
        answer = await _ask(registry, writer, request, timeout_s)
    except CannotConnect as error:
        _log.info("The registry at %s, which wrote last, cannot be reached; taking over: %s", writer, error)
        registry.shun(writer)
        return None
    except NetworkError as error:
        registry.shun(writer)
        if request.method == "DELETE":
            # It may have been executed, and a repetition would be rejected.
            raise RegistryError(50003, f"Error while forwarding the request to {writer}: {error}") from None
        _log.info("The registry at %s, which wrote last, does not answer; taking over: %s", writer, error)
        return None
    if _MOVED_HEADER in answer.headers:
        await registry.replica.catch_up()
        return None
    if answer.status < 300:
        # So that a client can read here what it wrote here.
        await registry.replica.catch_up()
    return answer


async def _ask(registry: Registry, writer: str, request: Request, timeout_s: float) -> HttpAnswer:
    parts = urlsplit(writer)
    if parts.scheme not in _PORTS or parts.hostname is None:
        raise CannotConnect(writer, 0, "this is not the URL of a registry")
    tls = None
    if parts.scheme == "https":
        tls = registry.settings.forwarding_tls or _usual_tls()
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    return await http_request(
        registry.network,
        Address(parts.hostname, parts.port or _PORTS[parts.scheme]),
        request.method,
        path,
        {**headers, FORWARDED: "true"},
        await request.body(),
        timeout_s,
        tls,
    )


@cache
def _usual_tls() -> ClientTls:
    """With the system's certificates, which take a while to read."""
    return ClientTls()


def _response(answer: HttpAnswer) -> Response:
    media = answer.headers.get("content-type", "application/json")
    return Response(answer.body, answer.status, headers={"content-type": media})
