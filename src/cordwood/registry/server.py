"""**RegistryServer**: a registry with its listener."""

from __future__ import annotations

import platform
from collections.abc import Mapping

from cordwood.net.http.limits import HttpLimits
from cordwood.net.http.server import HttpServer
from cordwood.runtime.clock import Clock
from cordwood.runtime.network import Network
from cordwood.runtime.randomness import Random
from cordwood.runtime.tls import ServerTls

from .listeners import reached_at
from .packages import require_packages
from .registry import Registry, RegistrySettings
from .rest.app import registry_app

_STOP_GRACE_S = 2.0
_MAX_BODY_BYTES = 8 << 20


class RegistryServer:
    """Listens once it has read all schemas, so that every connection gets responses.

    server = await RegistryServer.start(RegistrySettings(reaching("localhost:9092")), network, clock, "127.0.0.1", 8081)
    """

    def __init__(self, registry: Registry, network: Network, clock: Clock) -> None:
        self.registry = registry
        self._http = HttpServer(network, clock, HttpLimits(max_body_bytes=_MAX_BODY_BYTES))
        self.url = ""

    @classmethod
    async def start(
        cls,
        settings: RegistrySettings,
        network: Network,
        clock: Clock,
        host: str,
        port: int,
        *,
        tls: ServerTls | None = None,
        advertised_url: str = "",
        node_host: str = "",
        credentials: Mapping[str, str] | None = None,
        random: Random | None = None,
    ) -> RegistryServer:
        """Other registries reach it at `advertised_url`, or where it listens: if that is every address, at `node_host`,
        which is the machine's name unless it is given. Raises `PackagesMissing`, `CannotListen`, `UnusableTopic`, or a
        `ClientError`."""
        require_packages("a schema registry")
        server = cls(Registry(settings, network=network, clock=clock, random=random), network, clock)
        try:
            await server.registry.start()
            app = registry_app(server.registry, credentials)
            address = await server._http.serve(app, host, port, tls)
        except BaseException:
            await server.registry.stop()
            raise
        server.url = reached_at(address, is_https=tls is not None, node_host=node_host or platform.node())
        server.registry.url = advertised_url or server.url
        return server

    async def stop(self) -> None:
        await self._http.stop(_STOP_GRACE_S)
        await self.registry.stop()
