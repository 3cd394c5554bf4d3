"""The broker that coordinates a group: found once, and again after it was forgotten."""

from cordwood.client.admin.coordinators import CoordinatorKind, find_coordinators
from cordwood.client.client import Client
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode


class GroupCoordinator:
    """Shared by a consumer's membership and its commits, so that what one learns the other knows."""

    def __init__(self, client: Client, group_id: str) -> None:
        self._client = client
        self._group_id = group_id
        self._broker_id: int | None = None

    async def connection(self) -> BrokerConnection:
        """One try. Raises a `ClientError`, which is retriable if a coordinator may be found later."""
        if self._broker_id is None:
            found = (await find_coordinators(self._client, CoordinatorKind.GROUP, [self._group_id]))[self._group_id]
            if isinstance(found, BrokerError):
                raise found
            self._broker_id = found
        try:
            return await self._client.broker(self._broker_id)
        except ClientError:
            self.forget()
            raise

    def forget(self) -> None:
        """Look for it before the next request."""
        self._broker_id = None

    def note(self, error: ClientError) -> None:
        """Forgets a coordinator that cannot be reached, or says that it is none."""
        if error.code in _NOT_THERE:
            self.forget()


_NOT_THERE = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)
