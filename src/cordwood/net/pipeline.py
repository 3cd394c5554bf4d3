"""The steps of every request, on the listeners of both roles:

    decode → authenticate → authorize → quota → measure → fast path or handler → encode

`Pipeline.__call__` reads in this order. A request that repeats an earlier one may be answered by a `Shortcut`, which
has cached the outcome of the first steps.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, Generic, Protocol

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.serving import Answer, BadRequest, Reply
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Part
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError, UnsupportedRequest
from cordwood.wire.frames import decode_request, encode_response_parts
from cordwood.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.headers import RequestHeader
from cordwood.wire.schema import Request, Response

from .api import C, Call, Handler, Lesson
from .gate import Gate


class Shortcut(Protocol):
    """A fast path for one API. It answers a request as the general path would, which differential tests verify: its
    cache key has everything that can change the outcome (the bytes of the request with the client id,
    `ConnectionInfo.origin`, the authorizer's generation), and it checks quotas and measures as the steps below do. It
    caches responses without an error only, so no client benefits from another one's permissions."""

    def answer(self, frame: bytearray, connection: ConnectionInfo) -> list[Part] | Reply | None:
        """None: the request takes the general path, and nothing has happened to it yet."""

    def lesson(self, frame: bytearray, request: Request[Any], call: Call) -> Lesson | None:
        """Called for a request on the general path that has been authorized. Returns a function to be called with its
        response; None if there is nothing to cache."""


class Pipeline(Generic[C]):
    """The `net.serving.Handler` of the listeners of a role. `shortcuts` are by API key."""

    def __init__(
        self,
        role: C,
        handlers: Iterable[Handler[C]],
        gate: Gate,
        disk_failed: Callable[[DiskError], None],
        shortcuts: Mapping[int, Shortcut] | None = None,
    ) -> None:
        self._role = role
        self._handlers = {handler.api_key: handler for handler in handlers}
        self._authorizer, self._quotas, self._measures = gate
        self._on_disk_failure = disk_failed
        self._shortcuts = dict(shortcuts or {})
        assert all(key < 256 for key in self._shortcuts), "they are looked up by the lower byte of the key"

    def __call__(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        # The fast path, for requests like an earlier one.
        shortcut = self._shortcuts.get(frame[1]) if len(frame) > 1 and frame[0] == 0 else None
        if shortcut is not None:
            answer = shortcut.answer(frame, connection)
            if answer is not None:
                return answer

        # Decode.
        try:
            header, request = decode_request(frame)
        except UnsupportedRequest as error:
            if error.api_key == ApiVersionsRequest.api_key:
                # The one request that a client sends before it knows our versions: answered in the first one.
                return encode_response_parts(_unsupported_version(), 0, error.correlation_id)
            raise BadRequest(str(error)) from None
        except DecodeError as error:
            raise BadRequest(str(error)) from None
        handler = self._handler_of(header, request, connection)

        # Authenticate: a call has the principal of its connection.
        call = Call(header, connection, len(frame))

        # Authorize.
        refusal = self._authorizer.refusal(request, call)

        # Quota: rejected requests count, too.
        call.throttle_time_ms = self._quotas.throttle_time_ms(
            call.principal, call.client_id, header.request_api_key, len(frame)
        )

        # Measure.
        if self._measures is not None:
            call.measure(self._measures)
        if refusal is not None:
            return call.parts(refusal)

        # Handle.
        if shortcut is not None:
            call.lesson = shortcut.lesson(frame, request, call)
        try:
            result = handler.handle(self._role, request, call)
        except DiskError as error:
            raise self._disk_failed(error) from error

        # Encode.
        if isinstance(result, Response):
            return call.parts(result)
        if result is None or isinstance(result, Reply):
            return result
        return self._encoded(call, result)

    def _handler_of(self, header: RequestHeader, request: Request[Any], connection: ConnectionInfo) -> Handler[C]:
        handler = self._handlers.get(header.request_api_key)
        if handler is None or header.request_api_version not in handler.advertised:
            raise BadRequest(
                f"{type(request).__name__} version {header.request_api_version} is not served on {connection.listener}"
            )
        return handler

    async def _encoded(self, call: Call, result: Coroutine[Any, Any, Response | None]) -> list[Part] | None:
        try:
            response = await result
        except DiskError as error:
            raise self._disk_failed(error) from error
        return None if response is None else call.parts(response)

    def _disk_failed(self, error: DiskError) -> BadRequest:
        """If a disk fails during a request without a suitable error code, the connection is closed: the client
        reconnects, and gets the current state from Metadata."""
        self._on_disk_failure(error)
        return BadRequest(str(error))


def _unsupported_version() -> ApiVersionsResponse:
    """KIP-511: the versions of ApiVersions itself, so that the client can ask again."""
    own = ApiVersionsRequest.stable_versions
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiVersionsRequest.api_key, min_version=own.low, max_version=own.high)],
    )
