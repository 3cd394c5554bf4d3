"""Reasons why a request to a peer failed, with messages of one line.

PeerError
├── ConnectionFailed
│   ├── Unreachable        no connection: the request was not sent
│   └── Disconnected       lost or abandoned before the response came: the request may have been executed
├── UnsupportedByPeer      no version in common, or none that can express the request
├── Unencodable            a value that the protocol cannot express
├── MalformedResponse
└── PeerRefused            the peer answers ApiVersions with an error
"""

from cordwood.wire.errors import ErrorCode


class PeerError(Exception):
    """A request was not sent, or has no response that can be used."""


class ConnectionFailed(PeerError):
    """The connection could not be made, or did not last. Trying again may help."""


class Unreachable(ConnectionFailed):
    """There is no connection, so the request was not sent."""


class Disconnected(ConnectionFailed):
    """The connection was lost before the response came: the request may or may not have been done."""


class UnsupportedByPeer(PeerError):
    """The peer and we have no version of a request in common, or none that can express it."""


class Unencodable(PeerError):
    """The request has a value that the protocol cannot express."""


class MalformedResponse(PeerError):
    """The response cannot be decoded."""


class PeerRefused(PeerError):
    """The peer answers ApiVersions, the first request on a connection, with an error."""

    def __init__(self, code: int) -> None:
        self.code = ErrorCode.of(code)
        super().__init__(f"ApiVersions is refused with {self.code.name}")
