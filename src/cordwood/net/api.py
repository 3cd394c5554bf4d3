"""A handler: which API it serves, in which versions, on which listeners.

    @handles(ListOffsetsRequest)
    def list_offsets(broker: Broker, request: ListOffsetsRequest, call: Call) -> ListOffsetsResponse: ...

A handler returns its response; or None where the protocol has no response; or a `Reply` that it answers later with
`call.parts(response)`; or it is a coroutine function that returns the response. An error meant for the client is in the
response; an exception is our bug. Its first argument is the role that serves it: a `Broker` or a `Controller`.
ApiVersions, the tables of the pipelines and docs/compatibility.md are derived from the lists in `broker.handlers` and
`controller.handlers`.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.serving import Reply
from cordwood.runtime.network import Part
from cordwood.wire.frames import encode_response_parts
from cordwood.wire.messages.headers import RequestHeader
from cordwood.wire.schema import Request, Response, Versions

from .measures import ApiMeasure, Measures
from .principal import ANONYMOUS, Principal

RequestT = TypeVar("RequestT", bound=Request[Any])
# The role that serves a request.
C = TypeVar("C", contravariant=True)
Result = Response | None | Reply | Coroutine[Any, Any, Response | None]


# Called with the response of a request that can be cached.
Lesson = Callable[[Response], None]


class RequestContext(Protocol):
    """The sender and version of a request: the data in an Envelope besides the request when a broker forwards it."""

    @property
    def version(self) -> int: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def client_id(self) -> str: ...

    @property
    def listener(self) -> str: ...

    @property
    def connection(self) -> ConnectionInfo | None:
        """The connection over which the request came; None for one of this process's own."""


class OwnRequest(NamedTuple):
    """The context of a request that a node makes on its own behalf."""

    version: int
    principal: Principal = ANONYMOUS
    client_id: str = ""
    listener: str = ""
    connection: ConnectionInfo | None = None


class Call:
    """The `RequestContext` of a request that came over a connection, and how to answer it. The pipeline's steps fill in
    their results."""

    __slots__ = (
        "_began_s",
        "_measure",
        "client_id",
        "connection",
        "header",
        "lesson",
        "listener",
        "principal",
        "request_bytes",
        "throttle_time_ms",
        "version",
    )

    def __init__(self, header: RequestHeader, connection: ConnectionInfo, request_bytes: int) -> None:
        self.header = header
        self.connection = connection
        self.request_bytes = request_bytes
        self.version: int = header.request_api_version
        self.listener = connection.listener
        self.principal = connection.principal
        self.client_id: str = header.client_id or ""
        # The throttle time for the client.
        self.throttle_time_ms = 0
        # The fast path's learning step, if there is one.
        self.lesson: Lesson | None = None
        self._measure: ApiMeasure | None = None
        self._began_s = 0.0

    def measure(self, measures: Measures) -> None:
        """From here on, until it is answered."""
        self._began_s = measures.monotonic()
        self._measure = measures.of(self.header.request_api_key)
        self._measure.begun(self.version, self.request_bytes)

    def go_on(self, measures: Measures, began_s: float) -> None:
        """Measures a request that has been counted, from when it began."""
        self._began_s = began_s
        self._measure = measures.of(self.header.request_api_key)

    def parts(self, response: Response) -> list[Part]:
        """The whole answer as it goes out; file ranges in it are not read. Every answer of the general path is made
        here, once."""
        lesson, measure = self.lesson, self._measure
        if lesson is not None:
            # It refers to this call: in a circle they would keep the request's frame from being used again.
            self.lesson = None
            lesson(response)
        if self.throttle_time_ms and hasattr(response, "throttle_time_ms"):
            # A handler may give the same response to others.
            response = copy(response)
            response.throttle_time_ms = self.throttle_time_ms
        parts = encode_response_parts(response, self.version, self.header.correlation_id)
        if measure is not None:
            measure.answered_with(response, sum(map(len, parts)), self._began_s)
        return parts


@dataclass(frozen=True, slots=True)
class Handler(Generic[C]):
    request: type[Request[Any]]
    # The advertised versions; others are rejected.
    advertised: Versions
    # With the role, the request, and its `RequestContext`.
    handle: Callable[[C, Any, Any], Result]
    # The kinds of listeners that serve it: "broker", "controller".
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
    """The handlers for a configuration, whose flags `is_set` looks up: with `unstable.api.versions.enable`, or a
    handler's own setting, the latest version is served even if it is not stable."""

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
