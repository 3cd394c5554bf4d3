"""A handler: which API it serves, in which versions, on which listeners.

    @handles(ListOffsetsRequest)
    def list_offsets(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse: ...

A handler returns its response; or None where the protocol has no response; or a `Reply` that it answers later with
`call.parts(response)`; or it is a coroutine function that returns the response. An error that a client is to see is in
the response; an exception is our bug. Its first argument is the role that serves it: a `Broker` or a `Controller`.
ApiVersions, the dispatch tables and docs/compatibility.md are derived from the lists in `broker.handlers` and
`controller.handlers`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from cordwood.net.serving import ConnectionInfo, Reply
from cordwood.runtime.network import Part
from cordwood.wire.frames import encode_response_parts
from cordwood.wire.messages.headers import RequestHeader
from cordwood.wire.schema import Request, Response, Versions

RequestT = TypeVar("RequestT", bound=Request[Any])
# The role that serves a request.
C = TypeVar("C", contravariant=True)
Result = Response | None | Reply | Coroutine[Any, Any, Response | None]


class RequestContext(Protocol):
    """Who asks, and in which version: what an Envelope carries besides the request when a broker forwards it."""

    @property
    def version(self) -> int: ...

    @property
    def client_id(self) -> str: ...

    @property
    def listener(self) -> str: ...


class OwnRequest(NamedTuple):
    """The context of a request that a node makes on its own behalf."""

    version: int
    client_id: str = ""
    listener: str = ""


class Call:
    """The `RequestContext` of a request that came over a connection, and how to answer it."""

    __slots__ = ("connection", "header", "request_bytes", "version")

    def __init__(self, header: RequestHeader, connection: ConnectionInfo, request_bytes: int) -> None:
        self.header = header
        self.connection = connection
        self.request_bytes = request_bytes
        self.version: int = header.request_api_version

    @property
    def client_id(self) -> str:
        return self.header.client_id or ""

    @property
    def listener(self) -> str:
        return self.connection.listener

    def parts(self, response: Response) -> list[Part]:
        """The whole answer as it goes out; file ranges in it are not read. Every answer is made here, once."""
        return encode_response_parts(response, self.version, self.header.correlation_id)


@dataclass(frozen=True, slots=True)
class Handler(Generic[C]):
    request: type[Request[Any]]
    # What ApiVersions says; versions of it that the schema does not have are refused.
    advertised: Versions
    # With the role, the request, and its `RequestContext`.
    handle: Callable[[C, Any, Any], Result]
    # Of which kinds the listeners are that serve it: "broker", "controller".
    listeners: tuple[str, ...]
    # A setting that needs the version which Kafka does not count as stable.
    unstable_for: str | None = None

    @property
    def api_key(self) -> int:
        return self.request.api_key


def handles(
    request: type[RequestT],
    *,
    advertised_from: int | None = None,
    listeners: tuple[str, ...] | None = None,
    unstable_for: str | None = None,
) -> Callable[[Callable[[C, RequestT, Call], Result]], Handler[C]]:
    """Serves all stable versions of the request. `advertised_from`: a lower one to be advertised all the same.
    `listeners`: where, if not everywhere that Kafka serves it. `unstable_for`: see `with_unstable_versions`."""
    stable = request.stable_versions
    advertised = stable if advertised_from is None else Versions(advertised_from, stable.high)

    def declare(handle: Callable[[C, RequestT, Call], Result]) -> Handler[C]:
        where = tuple(request.listeners) if listeners is None else listeners
        return Handler(request, advertised, handle, where, unstable_for)

    return declare


def served_versions(handlers: Iterable[Handler[C]]) -> dict[int, Versions]:
    return {handler.api_key: handler.advertised for handler in handlers}


def with_unstable_versions(handlers: Iterable[Handler[C]], is_set: Callable[[str], bool]) -> list[Handler[C]]:
    """The handlers as they are served with a configuration, of which `is_set` tells flags: where
    `unstable.api.versions.enable` or a setting that depends on it is set, the latest version is served also if it is
    not stable."""

    def is_wanted(handler: Handler[C]) -> bool:
        return handler.request.latest_version_unstable and (
            is_set("unstable.api.versions.enable")
            or (handler.unstable_for is not None and is_set(handler.unstable_for))
        )

    return [
        replace(handler, advertised=Versions(handler.advertised.low, handler.request.versions.high))
        if is_wanted(handler)
        else handler
        for handler in handlers
    ]
