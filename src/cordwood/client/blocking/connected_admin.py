"""Life cycle of the admin client for threads."""

from collections.abc import Coroutine, Mapping
from typing import Any, Unpack

from cordwood.client.admin.admin import Admin
from cordwood.client.blocking.facade import Facade
from cordwood.client.options.configuration import read_settings
from cordwood.client.options.keywords import AdminKeywords
from cordwood.client.settings import AdminSettings
from cordwood.runtime.sockets import SocketNetwork


class ConnectedAdmin(Facade):
    """Every administrative operation of a cluster; any number of threads may share one.

    >>> with Admin(bootstrap_servers="localhost:9092") as admin:
    ...     admin.create_topics([NewTopic("orders", partitions=3)])

    Settings are keywords, or a mapping with Kafka's dotted names; see docs/client-configuration.md. Connects at once,
    and raises `CannotReachCluster` when no bootstrap address answers. A call about several things that fails for some
    of them raises the first failure, a `BrokerError` whose `outcomes` has every result.
    """

    def __init__(self, options: Mapping[str, object] | None = None, **keywords: Unpack[AdminKeywords]) -> None:
        settings = read_settings(AdminSettings, options, keywords)
        super().__init__(f"the admin client {settings.client_id}")
        try:
            self._core = self._run(_start(settings))
        except BaseException:
            self._portal.close()
            raise
        self._opened()

    def close(self) -> None:
        """Closes all connections; also at the end of `with`."""
        self._end(self._core.close())

    def _last_work(self, timeout_s: float) -> Coroutine[Any, Any, None]:
        return self._core.close()


async def _start(settings: AdminSettings) -> Admin:
    admin = Admin(settings, network=SocketNetwork())
    await admin.start()
    return admin
