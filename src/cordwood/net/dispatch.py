"""From a frame to its handler and back: the way that every request takes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Generic

from cordwood.net.serving import Answer, BadRequest, ConnectionInfo, Reply
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Part
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError, UnsupportedRequest
from cordwood.wire.frames import decode_request, encode_response_parts
from cordwood.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.headers import RequestHeader
from cordwood.wire.schema import Request, Response

from .api import C, Call, Handler
from .measures import Measures


class Dispatch(Generic[C]):
    """The `net.serving.Handler` of the listeners of a role."""

    def __init__(self, role: C, handlers: Iterable[Handler[C]], disk_failed: Callable[[DiskError], None]) -> None:
        # Makes the call of a request: one that measures itself, with metrics.
        self.new_call: Callable[[RequestHeader, ConnectionInfo, int], Call] = Call
        self._role = role
        self._handlers = {handler.api_key: handler for handler in handlers}
        self._on_disk_failure = disk_failed

    def measure(self, measures: Measures) -> None:
        """All requests from here on."""
        self.new_call = measures.new_call

    def __call__(self, frame: bytearray, connection: ConnectionInfo) -> Answer:
        try:
            header, request = decode_request(frame)
        except UnsupportedRequest as error:
            if error.api_key == ApiVersionsRequest.api_key:
                # The one request that a client sends before it knows our versions: answered in the first one.
                return encode_response_parts(_unsupported_version(), 0, error.correlation_id)
            raise BadRequest(str(error)) from None
        except DecodeError as error:
            raise BadRequest(str(error)) from None
        handler = self._handlers.get(header.request_api_key)
        if handler is None or header.request_api_version not in handler.advertised:
            raise BadRequest(
                f"{type(request).__name__} version {header.request_api_version} is not served on {connection.listener}"
            )
        self._decoded(frame, header, request)
        call = self.new_call(header, connection, len(frame))
        try:
            result = handler.handle(self._role, request, call)
        except DiskError as error:
            raise self._disk_failed(error) from error
        if isinstance(result, Response):
            parts = call.parts(result)
            self._answered(frame, header, request, result, parts, connection)
            return parts
        if result is None or isinstance(result, Reply):
            return result
        return self._encoded(call, result)

    # For fast paths, which learn from requests that took this way.

    def _decoded(self, frame: bytearray, header: RequestHeader, request: Request[Any]) -> None:
        """A request is about to be handled."""

    def _answered(
        self,
        frame: bytearray,
        header: RequestHeader,
        request: Request[Any],
        response: Response,
        parts: list[Part],
        connection: ConnectionInfo,
    ) -> None:
        """A request was answered at once."""

    async def _encoded(self, call: Call, result: Coroutine[Any, Any, Response | None]) -> list[Part] | None:
        try:
            response = await result
        except DiskError as error:
            raise self._disk_failed(error) from error
        return None if response is None else call.parts(response)

    def _disk_failed(self, error: DiskError) -> BadRequest:
        """A disk that fails under a request which has no error of its own for that costs the connection: its client
        asks again, and is told by the metadata what is left."""
        self._on_disk_failure(error)
        return BadRequest(str(error))


def _unsupported_version() -> ApiVersionsResponse:
    """KIP-511: the versions of ApiVersions itself, so that the client can ask again."""
    own = ApiVersionsRequest.stable_versions
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiVersionsRequest.api_key, min_version=own.low, max_version=own.high)],
    )
