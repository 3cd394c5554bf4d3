"""Passing a write on to the registry that writes at the moment."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from cordwood.net.http.client import request as http_request
from cordwood.registry.registry import Registry
from cordwood.runtime.network import Address, NetworkError

FORWARDED = "x-forward"
"""Confluent's: a node that receives it does not forward the request again."""

_PASSED_ON = ("content-type", "accept", "authorization")
_TIMEOUT_S = 30.0


async def forward(registry: Registry, writer: str, request: Request) -> Response | None:
    """None if the writer cannot be reached."""
    parts = urlsplit(writer)
    if parts.scheme != "http" or parts.hostname is None:
        return None
    headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
    path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    try:
        answered = await http_request(
            registry.network,
            Address(parts.hostname, parts.port or 80),
            request.method,
            path,
            {**headers, FORWARDED: "true"},
            await request.body(),
            _TIMEOUT_S,
        )
    except NetworkError:
        return None
    if answered.status < 300:
        # So that whoever writes here reads here what it wrote.
        await registry.replica.catch_up()
    media = answered.headers.get("content-type", "application/json")
    return Response(answered.body, answered.status, headers={"content-type": media})
