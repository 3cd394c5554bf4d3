"""How requests are measured, as seen by what serves them. `console.request_metrics` does it; without it nothing is."""

from __future__ import annotations

from typing import Protocol

from cordwood.net.serving import ConnectionInfo
from cordwood.wire.messages.headers import RequestHeader

from .api import Call


class ApiMeasure(Protocol):
    """The figures of one API."""

    def begun(self, version: int, request_bytes: int) -> None: ...

    def answered(self, response_bytes: int, began_s: float) -> None:
        """Without an error in it."""

    def served(self, version: int, request_bytes: int, response_bytes: int, began_s: float) -> None:
        """Begun and answered at once."""


class Measures(Protocol):
    def monotonic(self) -> float: ...

    def of(self, api_key: int) -> ApiMeasure: ...

    def new_call(self, header: RequestHeader, connection: ConnectionInfo, request_bytes: int) -> Call:
        """A call that measures itself: the general way."""

    def begun_call(self, header: RequestHeader, connection: ConnectionInfo, request_bytes: int, began_s: float) -> Call:
        """As `new_call`, for a request that was counted when it began."""
