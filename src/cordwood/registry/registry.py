"""**Registry**: one of any number over the same topic. It answers from its replica, and writes, or has another write.

Writes go to the registry that wrote last, which every record names: so they stay with one that has the state. When it
is not to be reached, the one that was asked takes over.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from cordwood.client.admin.admin import Admin
from cordwood.client.configuration import read_settings
from cordwood.client.consumer.consumer import Consumer
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import ClientError
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import AdminSettings, Settings
from cordwood.runtime.network import Network

from .replica import Replica
from .state.errors import RegistryError
from .state.schemas import ParsedSchemas
from .state.state import State
from .topic import DEFAULT_TOPIC, prepare_topic
from .writer import Decide, Fenced, OutcomeUnknown, Writer

_log = logging.getLogger(__name__)

_ATTEMPTS = 8
_FIRST_PAUSE_S = 0.05


S = TypeVar("S", bound=Settings)


class ClientSettings(Protocol):
    """Makes the settings of its clients: where the cluster is, how it is secured, and what the registry sets itself."""

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


class Registry:
    def __init__(self, settings: RegistrySettings, *, network: Network) -> None:
        self.settings = settings
        self.parsed = ParsedSchemas(settings.most_parsed)
        self.url = ""
        """Where others reach this one; set before it writes."""
        self.network = network
        self._admin = Admin(settings.client(AdminSettings), network=network)
        consumer_settings = settings.client(
            ConsumerSettings, isolation_level="read_committed", auto_offset_reset="earliest", enable_auto_commit=False
        )
        self._consumer = Consumer(settings=consumer_settings, network=network)
        self.replica = Replica(self._consumer, self._admin, settings.topic)
        self._writer: Writer | None = None
        self._taking_over = asyncio.Lock()

    async def start(self) -> None:
        """Raises `UnusableTopic`, or a `ClientError`."""
        await prepare_topic(self._admin, self.settings.topic)
        await self._consumer.start()
        await self.replica.start()

    async def stop(self) -> None:
        if self._writer is not None:
            await self._writer.close()
        await self.replica.stop()
        await self._consumer.close()
        await self._admin.close()

    @property
    def state(self) -> State:
        """As far as it is committed and read here."""
        return self.replica.state

    @property
    def other_writer(self) -> str | None:
        """Where the registry takes requests that writes at the moment; None if it is this one, or nobody."""
        last = self.replica.last_writer
        is_writer = self._writer is not None and not self._writer.is_fenced
        return None if is_writer or not last or last == self.url else last

    async def write(self, decide: Decide, *, is_idempotent: bool) -> Any:
        """Decides and commits here. Raises `RegistryError`.

        Where the outcome of a write is unknown, it is decided again if `is_idempotent`."""
        pause_s = _FIRST_PAUSE_S
        for _ in range(_ATTEMPTS):
            try:
                writer = await self._leading()
                return await writer.write(decide)
            except Fenced:
                pass
            except OutcomeUnknown as error:
                if not is_idempotent:
                    raise RegistryError(50002, f"The write was not acknowledged; it may be done: {error}") from None
            except ClientError as error:
                _log.warning("Cannot write schemas, retrying in %g s: %s", pause_s, error)
            await asyncio.sleep(pause_s)
            pause_s *= 2
        raise RegistryError(50001, f"Topic {self.settings.topic} could not be written to")

    async def cluster_id(self) -> str:
        return (await self._admin.describe_cluster()).id

    async def _leading(self) -> Writer:
        async with self._taking_over:
            if self._writer is not None and not self._writer.is_fenced:
                return self._writer
            if self._writer is not None:
                await self._writer.close()
                self._writer = None
            settings = self.settings.client(
                ProducerSettings,
                transactional_id=f"{self.settings.group_id}-{self.settings.topic}",
                linger_ms=0,
            )
            producer = Producer(settings, settings.bootstrap_servers, network=self.network)
            await producer.start()
            writer = Writer(producer, self.replica, self.settings.topic, self.url)
            try:
                await writer.take_over()
            except BaseException:
                await writer.close()
                raise
            self._writer = writer
            _log.info("This registry writes schemas to %s from now on", self.settings.topic)
            return writer
