"""Blocking HTTP requests: used by serializers, in the application's threads."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from cordwood.runtime.tls import ClientTls


class Unreachable(Exception):
    """The server cannot be reached; the text says why."""


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


def connect(url: str, timeout_s: float, tls: ssl.SSLContext | None = None) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the URL of a registry: http://host:port or https://host:port")
    if parts.scheme == "https":
        context = tls if tls is not None else ssl.create_default_context()
        return http.client.HTTPSConnection(parts.hostname, parts.port, timeout=timeout_s, context=context)
    return http.client.HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)


def exchange(
    url: str,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes | None,
    timeout_s: float,
    tls: ClientTls | None = None,
) -> Answer:
    """Sends a request on a new connection. Raises `Unreachable`."""
    connection = connect(url, timeout_s, None if tls is None else tls.context)
    try:
        return exchange_on(connection, method, path, headers, body)
    finally:
        connection.close()


def exchange_on(
    connection: http.client.HTTPConnection, method: str, path: str, headers: Mapping[str, str], body: bytes | None
) -> Answer:
    """Raises `Unreachable`."""
    try:
        connection.request(method, path, body=body, headers=dict(headers))
        response = connection.getresponse()
        return Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"{connection.host}:{connection.port}: {error or type(error).__name__}") from None
