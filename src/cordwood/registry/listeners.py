"""Where a registry listens: `http://host:port`, as `cordwood.registry.listeners` has it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

DEFAULT_PORT = 8081


class RegistryListener(NamedTuple):
    host: str
    port: int


def parse_listener(text: str) -> RegistryListener:
    """Raises `ValueError`."""
    parts = urlsplit(text)
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{text!r} is no listener of a registry; expected http://HOST:PORT")
    return RegistryListener(parts.hostname, DEFAULT_PORT if parts.port is None else parts.port)
