"""What is measured of each request, by API. Put into a dispatch, which costs nothing more until then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from cordwood.net.api import Call
from cordwood.net.dispatch import Dispatch
from cordwood.net.serving import ConnectionInfo
from cordwood.runtime.network import Part
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.headers import RequestHeader
from cordwood.wire.messages.index import APIS
from cordwood.wire.schema import Response

from .exposition import Exposition, Histogram
from .response_errors import errors_in

_DURATIONS_S = (
    *(0.00005, 0.0001, 0.00025, 0.0005),
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0),
)


class ApiMetrics:
    __slots__ = ("durations", "errors", "name", "request_bytes", "requests", "response_bytes")

    def __init__(self, api_key: int) -> None:
        self.name = APIS[api_key]
        # By version.
        self.requests: Counter[int] = Counter()
        self.request_bytes = 0
        self.response_bytes = 0
        self.errors: Counter[int] = Counter()
        self.durations = Histogram(_DURATIONS_S)


class RequestMetrics:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self._apis: dict[int, ApiMetrics] = {}

    def measure(self, dispatch: Dispatch[Any]) -> None:
        """From here on."""
        dispatch.new_call = partial(_MeasuredCall, self)

    def of(self, api_key: int) -> ApiMetrics:
        api = self._apis.get(api_key)
        if api is None:
            api = self._apis[api_key] = ApiMetrics(api_key)
        return api

    def write(self, page: Exposition) -> None:
        apis = sorted(self._apis.values(), key=lambda api: api.name)
        page.counter(
            "cordwood_requests_total",
            "Requests that were begun.",
            *(
                ((("api", api.name), ("version", str(version))), count)
                for api in apis
                for version, count in sorted(api.requests.items())
            ),
        )
        page.histogram(
            "cordwood_request_duration_seconds",
            "From the decoded request to its answer, with what it waited for.",
            *(((("api", api.name),), api.durations) for api in apis),
        )
        page.counter(
            "cordwood_request_bytes_total",
            "Bytes of requests.",
            *(((("api", api.name),), api.request_bytes) for api in apis),
        )
        page.counter(
            "cordwood_response_bytes_total",
            "Bytes of responses, records included.",
            *(((("api", api.name),), api.response_bytes) for api in apis),
        )
        page.counter(
            "cordwood_response_errors_total",
            "Error codes in responses; one response may have several.",
            *(
                ((("api", api.name), ("error", ErrorCode(code).name)), count)
                for api in apis
                for code, count in sorted(api.errors.items())
            ),
        )


class _MeasuredCall(Call):
    __slots__ = ("_api", "_began", "_metrics")

    def __init__(
        self, metrics: RequestMetrics, header: RequestHeader, connection: ConnectionInfo, request_bytes: int
    ) -> None:
        super().__init__(header, connection, request_bytes)
        api = self._api = metrics.of(header.request_api_key)
        api.requests[self.version] += 1
        api.request_bytes += request_bytes
        self._metrics = metrics
        self._began = metrics.monotonic()

    def parts(self, response: Response) -> list[Part]:
        parts = super().parts(response)
        api = self._api
        api.response_bytes += sum(map(len, parts))
        for code in errors_in(response):
            api.errors[code] += 1
        api.durations.observe(self._metrics.monotonic() - self._began)
        return parts
