"""**Registry**: one of any number of registries on the same topic. It reads from its replica, and writes, or forwards
writes.

Writes go to the registry that wrote last, which every record names: so they stay with one that has the state. If it
cannot be reached, the receiving registry takes over.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cordwood.client.admin.admin import Admin
from cordwood.client.client import Client
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import ClientError, GaveUp
from cordwood.client.options.configuration import read_settings
from cordwood.client.settings import AdminSettings, Settings
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random, SeededRandom
from cordwood.runtime.tls import ClientTls

from .fenced_log import Fenced, FencedLog, OutcomeUnknown
from .replica import Replica
from .state.errors import RegistryError
from .state.schemas import ParsedSchemas
from .state.state import State
from .topic import DEFAULT_TOPIC, prepare_topic
from .writer import Decide, Writer

_log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.05
_MAX_PAUSE_S = 1.0
_SHUNNED_S = 5.0
"""The time for which an unresponsive registry is not asked again."""


S = TypeVar("S", bound=Settings)


class ClientSettings(Protocol):
    """Creates the settings of its clients: the cluster's address and security, and the registry's own values."""

    def __call__(self, kind: type[S], /, **own: Any) -> S: ...


def reaching(bootstrap: str) -> ClientSettings:
    """A cluster that needs neither TLS nor SASL."""

    def settings_of(kind: type[S], /, **own: Any) -> S:
        return read_settings(kind, {"bootstrap.servers": bootstrap}, own)

    return settings_of


@dataclass(frozen=True)
class RegistrySettings:
    client: ClientSettings
    topic: str = DEFAULT_TOPIC
    group_id: str = "schema-registry"
    """Registries with the same are one: part of their transactional id."""
    most_parsed: int = 1_000
    """Schemas that are kept parsed."""
    replication_factor: int | None = None
    """The replication factor if the topic is created; None is `offsets.topic.replication.factor` of the brokers."""
    init_timeout_s: float = 60.0
    """Time for which a start waits for enough brokers to create the topic."""
    timeout_s: float = 15.0
    """Timeout of a write."""
    forwarding_tls: ClientTls | None = None
    """The settings for requests to other registries that use https."""


class Moved(Exception):
    """Another registry writes now: nothing was written, and the request is for that one."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.url = url


class Registry:
    def __init__(
        self, settings: RegistrySettings, *, network: Network, clock: Clock, random: Random | None = None
    ) -> None:
        self.settings = settings
        self.parsed = ParsedSchemas(settings.most_parsed)
        self.url = ""
        """This registry's URL for others; set before it writes."""
        self.network = network
        self._clock = clock
        self._random = random if random is not None else SeededRandom()
        self._admin = Admin(settings.client(AdminSettings), network=network, random=self._random.fork("admin"))
        consumer_settings = settings.client(
            ConsumerSettings, isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
        )
        self._consumer = Consumer(
            settings=consumer_settings, network=network, clock=clock, random=self._random.fork("consumer")
        )
        self.replica = Replica(self._consumer, self._admin, settings.topic)
        self._client: Client | None = None
        self._writer: Writer | None = None
        self._taking_over = asyncio.Lock()
        self._max_batch_bytes = 0
        self._shunned: dict[str, float] = {}

    async def start(self) -> None:
        """Raises `UnusableTopic`, or a `ClientError`."""
        settings = self.settings
        self._max_batch_bytes = await prepare_topic(
            self._admin, settings.topic, settings.replication_factor, settings.init_timeout_s
        )
        await self._consumer.start()
        await self.replica.start()

    async def stop(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        if self._client is not None:
            await self._client.close()
        await self.replica.stop()
        await self._consumer.close()
        await self._admin.close()

    @property
    def state(self) -> State:
        """The state that is committed and read here."""
        return self.replica.state

    @property
    def other_writer(self) -> str | None:
        """The URL of the registry that currently writes; None if it is this one, or none answers."""
        last = self.replica.last_writer
        is_writer = self._writer is not None and not self._writer.is_fenced
        if is_writer or not last or last == self.url:
            return None
        return None if self._shunned.get(last, 0.0) > asyncio.get_running_loop().time() else last

    def shun(self, url: str) -> None:
        """Does without a registry that does not answer, for a while."""
        self._shunned = {url: asyncio.get_running_loop().time() + _SHUNNED_S}

    async def write(self, decide: Decide, *, is_idempotent: bool) -> Any:
        """Decides and commits here. Raises `RegistryError`, or `Moved`.

        If the outcome of a write is unknown, it is decided again if `is_idempotent`: the next writer's fence has
        settled it."""
        last_error = "no answer yet"
        pause_s = _FIRST_PAUSE_S
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                while True:
                    try:
                        return await (await self._leading()).write(decide)
                    except Fenced as error:
                        last_error = str(error)
                        await self.replica.catch_up()
                        if self.other_writer is not None:
                            raise Moved(self.other_writer) from None
                    except OutcomeUnknown as error:
                        last_error = str(error)
                        if not is_idempotent:
                            raise RegistryError(
                                50002, f"The write was not acknowledged; it may be done: {error}"
                            ) from None
                    except ClientError as error:
                        if not error.retriable and not isinstance(error, GaveUp):
                            raise RegistryError(
                                50001, f"Topic {self.settings.topic} could not be written to: {error}"
                            ) from None
                        last_error = str(error)
                        _log.warning("Cannot write schemas, retrying in %g s: %s", pause_s, error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _MAX_PAUSE_S)
        except TimeoutError:
            raise RegistryError(
                50002,
                f"Topic {self.settings.topic} took no write within {self.settings.timeout_s:g} s; it may still be done "
                f"(last error: {last_error})",
            ) from None

    async def cluster_id(self) -> str:
        return (await self._admin.describe_cluster()).id

    async def _leading(self) -> Writer:
        async with self._taking_over:
            if self._writer is not None and not self._writer.is_fenced:
                return self._writer
            if self._writer is not None:
                await self._writer.close()
                self._writer = None
            if self._client is None:
                limit_ms = int(self.settings.timeout_s * 1000)
                settings = self.settings.client(
                    Settings, request_timeout_ms=max(limit_ms // 3, 1), default_api_timeout_ms=limit_ms
                )
                self._client = await Client.connect(
                    settings.bootstrap_servers, settings, network=self.network, random=self._random.fork("client")
                )
            log = FencedLog(
                self._client,
                self._clock,
                self.settings.topic,
                f"{self.settings.group_id}-{self.settings.topic}",
                self.settings.timeout_s,
            )
            writer = Writer(log, self.replica, self.url, self._max_batch_bytes)
            await writer.take_over()
            self._writer = writer
            _log.info("This registry writes schemas to %s from now on", self.settings.topic)
            return writer
