"""Why a peer could not be asked. The text is for people, on one line.

PeerError
├── ConnectionFailed
│   ├── Unreachable        no connection: the request was not sent
│   └── Disconnected       lost, or given up, before the response came: the request may or may not have been done
├── UnsupportedByPeer      no version in common, or none that can say what was asked
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
    """The peer has no version of a request that we have, or none that can say what was asked."""


class Unencodable(PeerError):
    """The request holds a value that the protocol cannot express."""


class MalformedResponse(PeerError):
    """The response does not read as what the protocol says it is."""


class PeerRefused(PeerError):
    """The peer answers ApiVersions, the first request on a connection, with an error."""

    def __init__(self, code: int) -> None:
        self.code = ErrorCode.of(code)
        super().__init__(f"ApiVersions is refused with {self.code.name}")
