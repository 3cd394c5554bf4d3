"""Finds a coordinator, and converts its errors."""

from cordwood.runtime.network import NetworkError
from cordwood.sim.clients.client import Client
from cordwood.sim.clients.routes import GROUP, TRANSACTION
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.find_coordinator import FindCoordinatorRequest

_TRANSACTIONS_SINCE = 1
_BATCHES_SINCE = 4
_BACKOFF_S = 0.3

__all__ = ["GROUP", "TRANSACTION", "UNAVAILABLE", "find_coordinator"]

UNAVAILABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""The coordinator must be looked up and asked again. The outcome of the request is unknown."""


async def find_coordinator(client: Client, key: str, key_type: int = GROUP) -> None:
    """Returns when there is one; the topic that it keeps its state in is created by the first request."""
    client.routes.forget_coordinators()
    while True:
        low = _TRANSACTIONS_SINCE if key_type == TRANSACTION else 0
        version = client.source.randint(low, FindCoordinatorRequest.stable_versions.high)
        request = FindCoordinatorRequest(key_type=key_type)
        if version < _BATCHES_SINCE:
            request.key = key
        else:
            request.coordinator_keys = [key]
        try:
            response = await client.ask(request, version)
            found = response if version < _BATCHES_SINCE else response.coordinators[0]
            if not found.error_code:
                client.routes.note_coordinator((key_type, key), found.host)
                return
        except NetworkError:
            pass
        await client.pause(_BACKOFF_S)
