"""Request measurement as seen by the server. `console.request_metrics` implements it; without it nothing is
measured."""

from __future__ import annotations

from typing import Protocol

from cordwood.wire.schema import Response


class ApiMeasure(Protocol):
    """The figures of one API."""

    def begun(self, version: int, request_bytes: int) -> None: ...

    def answered(self, response_bytes: int, began_s: float) -> None:
        """Counts a response without an error."""

    def answered_with(self, response: Response, response_bytes: int, began_s: float) -> None:
        """Like `answered`, but counts the errors in the response."""

    def served(self, version: int, request_bytes: int, response_bytes: int, began_s: float) -> None:
        """Begun and answered at once, without an error."""


class Measures(Protocol):
    def monotonic(self) -> float: ...

    def of(self, api_key: int) -> ApiMeasure: ...
