"""**Link**: a client of the cluster for callers without an event loop; one for each configuration and process.

A Python worker of Spark runs one task after another: connections and metadata are kept between them. Idle connections
close (`connections.max.idle.ms`).
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from cordwood.client.blocking.portal import Portal
from cordwood.client.client import Client
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import CannotReachCluster
from cordwood.client.options.configuration import read_settings
from cordwood.runtime.threads import Lock
from cordwood.spark.source.fetch_sizes import FetchSizes
from cordwood.spark.watched_network import network_for

T = TypeVar("T")


def link_to(settings: Mapping[str, object], *, patient: bool = False) -> "Link":
    """By Kafka's names. Raises a `ClientError` when no broker answers: at once, so that a mistyped address is reported
    of it, or with `patient` after `default.api.timeout.ms`, because a broker that was reachable may come back."""
    key = tuple(sorted((name, str(value)) for name, value in settings.items()))
    with _lock:
        link = _links.get(key)
        if link is None or link.is_forked:
            link = _links[key] = Link(read_settings(ConsumerSettings, settings, {}), patient=patient)
    return link


_links: dict[tuple[tuple[str, str], ...], "Link"] = {}
_lock = Lock()


class Link:
    """Its client belongs to the loop of its thread: only code there may use it."""

    def __init__(self, settings: ConsumerSettings, *, patient: bool = False) -> None:
        self.settings = settings
        self.sizes = FetchSizes()
        """For the tasks that read one after another."""
        self._portal = Portal(f"cordwood-spark {settings.client_id}")
        try:
            self.client = self._portal.run(_connect(settings, patient))
        except BaseException:
            self._portal.close()
            raise

    @property
    def is_forked(self) -> bool:
        """True in a forked process, which does not have its thread."""
        return self._portal.background.forked

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for the coroutine, and raises its errors."""
        return self._portal.run(work)

    def post(self, callback: Callable[..., object], *args: object) -> None:
        """Has the loop call this soon."""
        self._portal.post(callback, *args)


async def _connect(settings: ConsumerSettings, patient: bool) -> Client:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + settings.default_api_timeout_ms / 1000
    while True:
        try:
            return await Client.connect(settings.bootstrap_servers, settings, network=network_for("reading"))
        except CannotReachCluster:
            if not patient or loop.time() >= deadline_s:
                raise
        await asyncio.sleep(settings.retry_backoff_max_ms / 1000)
