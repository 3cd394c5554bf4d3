"""What can go wrong between bytes and messages."""

from __future__ import annotations

UNEXPLAINED = "refused, although a second reading finds nothing wrong"
"""The reason of a refusal that the two readers disagree on: a bug of ours, which the fuzz test looks for."""


class WireError(Exception):
    """Anything the wire package refuses."""


class DecodeError(WireError):
    """Bytes that are not the message they should be: which message, which field, which byte, and why."""

    def __init__(self, message: str, path: str, position: int, reason: str) -> None:
        super().__init__(message, path, position, reason)
        self.message = message
        self.path = path
        self.position = position
        self.reason = reason

    def __str__(self) -> str:
        field = f".{self.path}" if self.path else ""
        return f"{self.message}{field} at byte {self.position}: {self.reason}"


class UnsupportedRequest(DecodeError):
    """A request whose API key or version we do not know; it carries what an answer needs (ApiVersions gives one)."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int, reason: str) -> None:
        super().__init__("RequestHeader", "request_api_version", 2, reason)
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class EncodeError(WireError):
    """A message whose value cannot be written: which message and field, and why."""

    def __init__(self, message: str, path: str, reason: str) -> None:
        super().__init__(message, path, reason)
        self.message = message
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.message}{'.' + self.path if self.path else ''}: {self.reason}"


class UnsupportedVersion(EncodeError):
    """A version that the message does not have, or a value that this version cannot express."""
