"""Checks before a request is handled: authorizer, quotas, measurement."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from cordwood.wire.schema import Request, Response

from .api import RequestContext
from .measures import Measures
from .principal import Principal


class Authorizer(Protocol):
    """Its decisions depend only on the request, its context, and the generation: an allowed request stays allowed as
    long as these stay the same. Fast paths rely on that."""

    @property
    def generation(self) -> int:
        """Increases with each change of permissions."""

    def refusal(self, request: Request[Any], context: RequestContext) -> Response | None:
        """The response that refuses the request as a whole; None if the request may proceed."""


class AllowAll:
    """The `Authorizer` of a node without one."""

    generation = 0

    def refusal(self, request: Request[Any], context: RequestContext) -> Response | None:
        return None


class Quotas(Protocol):
    def throttle_time_ms(self, principal: Principal, client_id: str, api_key: int, request_bytes: int) -> int:
        """Counts a request, once. Returns the throttle time of its client, 0 if it is within its quota."""


class NoQuotas:
    """The `Quotas` of a node without any."""

    def throttle_time_ms(self, principal: Principal, client_id: str, api_key: int, request_bytes: int) -> int:
        return 0


class Gate(NamedTuple):
    authorizer: Authorizer = AllowAll()
    quotas: Quotas = NoQuotas()
    # None: nothing is measured.
    measures: Measures | None = None
