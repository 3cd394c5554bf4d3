"""Errors of encoding and decoding."""

from __future__ import annotations

UNEXPLAINED = "rejected by the compiled codec, but the diagnostic decoder finds no error (a bug)"
"""Reason given if the two decoders disagree: a bug, which the fuzz test looks for."""


class WireError(Exception):
    """Base of all errors of the wire package."""


class DecodeError(WireError):
    """Bytes that do not decode as the expected message; names the message, field, byte and reason."""

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
    """A request with an unknown API key or version; carries the data for a response (ApiVersions sends one)."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int, reason: str) -> None:
        super().__init__("RequestHeader", "request_api_version", 2, reason)
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class EncodeError(WireError):
    """A message that cannot be encoded; names the message, field and reason."""

    def __init__(self, message: str, path: str, reason: str) -> None:
        super().__init__(message, path, reason)
        self.message = message
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.message}{'.' + self.path if self.path else ''}: {self.reason}"


class UnsupportedVersion(EncodeError):
    """The message does not have this version, or this version cannot express a value."""
