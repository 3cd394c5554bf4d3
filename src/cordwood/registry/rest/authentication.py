"""Basic authentication (RFC 7617)."""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping

from starlette.requests import Request

Credentials = Mapping[str, str]
"""Passwords by user."""


def is_authenticated(request: Request, credentials: Credentials) -> bool:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return False
    expected = credentials.get(user, "")
    # Unknown users are compared too, so that timing reveals nothing.
    is_equal = hmac.compare_digest(password.encode(), expected.encode())
    return is_equal and bool(colon) and user in credentials


def read_credentials(text: str, name: str) -> Credentials:
    """Parses lines of `user: password`; lines that begin with # are comments. `name` is the file's name. Raises
    `ValueError`."""
    users = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        user, colon, password = line.partition(":")
        if not colon or not password.strip():
            raise ValueError(f"{name}, line {number}: expected `user: password`")
        users[user.strip()] = password.strip()
    return users
