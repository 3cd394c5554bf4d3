"""Request metrics by API. A pipeline without them measures nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable

from cordwood.wire.errors import ErrorCode
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
    """See `net.measures.ApiMeasure`."""

    __slots__ = ("_monotonic", "durations", "errors", "name", "request_bytes", "requests", "response_bytes")

    def __init__(self, api_key: int, monotonic: Callable[[], float]) -> None:
        self.name = APIS[api_key]
        # By version. Incrementing a Counter takes twice as long.
        self.requests: defaultdict[int, int] = defaultdict(int)
        self.request_bytes = 0
        self.response_bytes = 0
        self.errors: Counter[int] = Counter()
        self.durations = Histogram(_DURATIONS_S)
        self._monotonic = monotonic

    def begun(self, version: int, request_bytes: int) -> None:
        self.requests[version] += 1
        self.request_bytes += request_bytes

    def answered(self, response_bytes: int, began_s: float) -> None:
        self.response_bytes += response_bytes
        self.durations.observe(self._monotonic() - began_s)

    def answered_with(self, response: Response, response_bytes: int, began_s: float) -> None:
        for code in errors_in(response):
            self.errors[code] += 1
        self.answered(response_bytes, began_s)

    def served(self, version: int, request_bytes: int, response_bytes: int, began_s: float) -> None:
        # `begun` and `answered` in one call: half a microsecond out of ten per request.
        self.requests[version] += 1
        self.request_bytes += request_bytes
        self.response_bytes += response_bytes
        self.durations.observe(self._monotonic() - began_s)


class RequestMetrics:
    """See `net.measures.Measures`."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self.monotonic = monotonic
        self._apis: dict[int, ApiMetrics] = {}

    def of(self, api_key: int) -> ApiMetrics:
        api = self._apis.get(api_key)
        if api is None:
            api = self._apis[api_key] = ApiMetrics(api_key, self.monotonic)
        return api

    def write(self, page: Exposition) -> None:
        apis = sorted(self._apis.values(), key=lambda api: api.name)
        page.counter(
            "cordwood_requests_total",
            "Requests received.",
            *(
                ((("api", api.name), ("version", str(version))), count)
                for api in apis
                for version, count in sorted(api.requests.items())
            ),
        )
        page.histogram(
            "cordwood_request_duration_seconds",
            "Time from decoding a request to its response, waits included.",
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
