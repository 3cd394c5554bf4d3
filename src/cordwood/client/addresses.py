"""Parses bootstrap addresses: "localhost:9092", "[::1]:9092", several separated by commas."""

import re

from cordwood.client.errors import BadSetting
from cordwood.runtime.network import Address

DEFAULT_PORT = 9092
# The default address of a node.
DEFAULT_BOOTSTRAP = f"127.0.0.1:{DEFAULT_PORT}"


_LISTENER = re.compile(r"^[0-9a-zA-Z\-%._]*://")


def parse_bootstrap(text: str) -> tuple[Address, ...]:
    """Raises `BadSetting`. The default port is Kafka's, 9092."""
    addresses = tuple(_parse(part.strip()) for part in text.split(",") if part.strip())
    if not addresses:
        raise BadSetting("no bootstrap address given; expected host:port, or several separated by commas")
    return addresses


def _parse(given: str) -> Address:
    # As in Kafka's clients: an address copied from `listeners` starts with the listener's name.
    text = _LISTENER.sub("", given)
    if text.startswith("["):
        host, closed, rest = text[1:].partition("]")
        if not closed or (rest and not rest.startswith(":")):
            raise _refusal(given)
        port = rest[1:] if rest else None
    elif text.count(":") > 1:
        # More than one colon and no brackets: a bare IPv6 address.
        host, port = text, None
    else:
        host, colon, rest = text.partition(":")
        port = rest if colon else None
    if not host:
        raise _refusal(given)
    if port is None:
        return Address(host, DEFAULT_PORT)
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise _refusal(given)
    return Address(host, int(port))


def _refusal(text: str) -> BadSetting:
    return BadSetting(f"{text!r} is not a bootstrap address; expected host:port with a port of 1 to 65535")
