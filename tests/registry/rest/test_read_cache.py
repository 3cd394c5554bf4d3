"""The cache of answers: the same as without it, never older than the state, and nothing for strangers."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping

from cordwood.registry.registry import RegistrySettings, reaching
from cordwood.registry.server import RegistryServer
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from cordwood.testing.embedded import EmbeddedNode
from tests.registry.registry_fixtures import Reply, Rest, record

ME = {"authorization": f"Basic {base64.b64encode(b'me:secret').decode()}"}


def test_answers_are_the_same_with_and_without_it(rest: Rest, subject: str) -> None:
    registered = rest.register(subject, record("R", "x")).body
    rest.register(f"{subject}-2", 'syntax = "proto3"; message A {}', "PROTOBUF")
    paths = (
        f"/schemas/ids/{registered['id']}",
        f"/schemas/ids/{registered['id']}?fetchMaxId=true",
        f"/schemas/ids/{registered['id']}/schema",
        f"/schemas/guids/{registered['guid']}",
        f"/subjects/{subject}/versions/latest",
        f"/subjects/{subject}-2/versions/1?format=serialized",
        "/subjects/nobody/versions",
        "/contexts",
        "/config",
    )
    kinds = ("application/json", "application/vnd.schemaregistry.v1+json", "text/html")

    def ask(more: str) -> list[Reply]:
        """An unknown parameter makes it another request, which is answered again."""
        return [
            rest("GET", f"{path}{'&' if '?' in path else '?'}{more}=1", headers={"accept": kind})
            for path in paths
            for kind in kinds
        ]

    assert ask("a") == ask("a") == ask("b")


def test_a_write_is_read_at_once(rest: Rest, subject: str) -> None:
    path = f"/subjects/{subject}/versions"
    rest.register(subject, record("R", "x"))
    assert rest("GET", path).body == [1]
    rest.register(subject, record("R", "x", "y=1"))
    assert rest("GET", path).body == [1, 2]
    rest("DELETE", f"/subjects/{subject}")
    assert rest("GET", path).code == 40401


def test_recycled_buffers_do_not_leak_data(node: EmbeddedNode) -> None:
    async def check() -> None:
        settings = RegistrySettings(reaching(node.bootstrap), topic="_cached")
        server = await RegistryServer.start(
            settings, SocketNetwork(), SystemClock(), "127.0.0.1", 0, credentials={"me": "secret"}
        )

        def ask(headers: Mapping[str, str]) -> int:
            return Rest(server.url)("GET", "/subjects", headers=dict(headers)).status

        try:
            assert await asyncio.to_thread(ask, ME) == 200
            assert await asyncio.to_thread(ask, {}) == 401
            assert await asyncio.to_thread(ask, {"authorization": "Basic bWU6d3Jvbmc="}) == 401
            assert await asyncio.to_thread(ask, ME) == 200
        finally:
            await server.stop()

    asyncio.run(check())
