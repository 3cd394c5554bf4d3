"""Schema registries, each on its own machine that is killed, paused and isolated; and clients that register."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from cordwood.client.errors import ClientError
from cordwood.client.settings import Settings
from cordwood.net.http.client import HttpAnswer
from cordwood.net.http.client import request as http_request
from cordwood.registry.errors import UnusableTopic
from cordwood.registry.registry import RegistrySettings
from cordwood.registry.server import RegistryServer
from cordwood.registry.state.state import State
from cordwood.runtime.network import Address, NetworkError
from cordwood.sim.clients.client import Client, Run
from cordwood.sim.histories.registry import Contents, Registration

from .life import LibraryClient

S = TypeVar("S", bound=Settings)

PORT = 8081
TOPIC = "_schemas"
_TIMEOUT_S = 3.0
_PATIENCE_S = 4.0
_MAX_PAUSE_S = 0.3
_MAX_STOPPED_S = 5.0
_MAX_QUIET_S = 6.0
_SUBJECTS = ("one", "two", "three", ":.other:one")
_SCHEMAS = 12
_READ = 0.3


class SimulatedRegistry(LibraryClient):
    """A machine with a registry."""

    def __init__(self, run: Run, name: str) -> None:
        super().__init__(run, name)
        self.server: RegistryServer | None = None

    async def live(self) -> None:
        network = self.network_settings() | {"default_api_timeout_ms": 2_000}

        def settings_of(kind: type[S], /, **own: Any) -> S:
            return kind(**{"bootstrap_servers": tuple(self.bootstrap)} | network | own)

        settings = RegistrySettings(settings_of, TOPIC, init_timeout_s=2.0, timeout_s=_TIMEOUT_S)
        while True:
            try:
                self.server = await RegistryServer.start(
                    settings,
                    self.run.world.network.host(self.name),
                    self.run.world.clock,
                    self.name,
                    PORT,
                    advertised_url=f"http://{self.name}:{PORT}",
                    random=self.random(),
                )
                break
            except (ClientError, UnusableTopic):
                await self.pause(0.5)
        await asyncio.Event().wait()

    def died(self) -> None:
        self.server = None

    async def trouble(self) -> None:
        """Stops its process for a while, as SIGSTOP does, or takes it off the network."""
        network = self.run.world.network
        while not self.run.is_over:
            await self.pause(_MAX_QUIET_S)
            process = self._process
            if process is None or self.run.is_over:
                continue
            if self.chance(0.6):
                self.run.world.trace.note("pause", self.name)
                process.pause()
                await self.pause(_MAX_STOPPED_S)
                self.run.world.trace.note("resume", self.name)
                process.resume()
            else:
                network.cut(self.name)
                await self.pause(_MAX_STOPPED_S)
                network.heal(self.name)


class RegistryClient(Client):
    """Registers schemas, some of which others register, too, and reads them back."""

    def __init__(self, run: Run, name: str, registries: list[SimulatedRegistry]) -> None:
        super().__init__(run, name)
        self._registries = registries
        self._host = run.world.network.host(name)

    async def work(self) -> None:
        while not self.run.is_over:
            registry = self.source.choice(self._registries).name
            known = self.run.history.registry.registrations
            if known and self.chance(_READ):
                await self._read(registry, self.source.choice(known))
            else:
                await self.register(registry, self.source.choice(_SUBJECTS), self._schema())
            await self.pause(_MAX_PAUSE_S)

    def _schema(self) -> str:
        """Any of them may follow any other."""
        number = self.source.randrange(_SCHEMAS)
        fields = [{"name": f"f{index}", "type": "int", "default": 0} for index in range(number)]
        return json.dumps({"type": "record", "name": "R", "fields": fields}, separators=(",", ":"))

    async def register(self, registry: str, subject: str, schema: str) -> bool:
        """Tells whether it was acknowledged."""
        answer = await self._ask(registry, "POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": schema})
        if answer is None or answer.status >= 500:
            return False
        body = json.loads(answer.body)
        if answer.status != 200:
            self.run.history.client_failures.append(f"{self.name}: {registry} refuses {schema} in {subject}: {body}")
            return False
        registration = Registration(
            self.name, registry, subject, schema, body["id"], body["version"], ended_s=self.run.now_s
        )
        self.run.world.trace.note("registered", str(registration))
        self.run.history.registry.registrations.append(registration)
        return True

    async def _read(self, registry: str, known: Registration) -> None:
        context = "" if known.context == "." else f"?subject={quote(known.subject, safe='')}"
        answer = await self._ask(registry, "GET", f"/schemas/ids/{known.id}{context}")
        if answer is not None and answer.status < 500:
            # A registry that lags behind does not know it yet.
            schema = json.loads(answer.body)["schema"] if answer.status == 200 else None
            self.run.history.registry.reads.append((known, registry, schema))

    async def _ask(
        self, registry: str, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> HttpAnswer | None:
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"content-type": "application/json"}
        try:
            return await http_request(self._host, Address(registry, PORT), method, path, headers, sent, _PATIENCE_S)
        except NetworkError:
            return None


def contents_of(state: State) -> Contents:
    return {
        subject: {number: (version.id, version.text) for number, version in sorted(versions.items())}
        for subject, versions in sorted(state.subjects.items())
    }
