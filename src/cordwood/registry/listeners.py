"""The URLs at which a registry listens, as `cordwood.registry.listeners` has them (`http://host:port`, or https), and
at which others reach it."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

from cordwood.runtime.network import Address

DEFAULT_PORT = 8081
_EVERY_ADDRESS = ("", "0.0.0.0", "::")


class RegistryListener(NamedTuple):
    host: str
    port: int
    is_https: bool = False


def parse_listener(text: str) -> RegistryListener:
    """Raises `ValueError`."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{text!r} is not a valid registry listener; expected http://HOST:PORT or https://HOST:PORT")
    return RegistryListener(parts.hostname, DEFAULT_PORT if parts.port is None else parts.port, parts.scheme == "https")


def check_advertised(url: str) -> str:
    """The URL itself. Raises `ValueError` if no other node could use it."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
        raise ValueError(f"{url!r} is not the URL of a registry; expected http://HOST:PORT or https://HOST:PORT")
    if parts.hostname in _EVERY_ADDRESS:
        raise ValueError(f"{url!r} is not an address that another node can connect to; name a host")
    return url.rstrip("/")


def reached_at(address: Address, *, is_https: bool, node_host: str) -> str:
    """The URL of a listener. One on every address is reached by the name of its node."""
    host = node_host if address.host in _EVERY_ADDRESS else address.host
    return f"{'https' if is_https else 'http'}://{Address(host, address.port)}"
