"""Registries that pass writes on to each other: over https, with basic authentication, and when one of them is gone."""

from __future__ import annotations

import asyncio
import base64
import platform
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import cordwood.testing
from cordwood.registry.errors import UnusableTopic
from cordwood.registry.listeners import check_advertised, parse_listener, reached_at
from cordwood.registry.registry import RegistrySettings, reaching
from cordwood.registry.server import RegistryServer
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.network import Address
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientAuth, ClientTls, KeyPair, ServerTls
from cordwood.testing.embedded import EmbeddedNode
from tests.net.certificates import authority
from tests.registry.registry_fixtures import Reply, Rest, record

USERS = {"me": "secret"}
BASIC = {"authorization": f"Basic {base64.b64encode(b'me:secret').decode()}"}


@asynccontextmanager
async def serving(*starts: Callable[[], Coroutine[Any, Any, RegistryServer]]) -> AsyncIterator[list[RegistryServer]]:
    started: list[RegistryServer] = []
    try:
        for start in starts:
            started.append(await start())  # noqa: PERF401  # those that have started are stopped
        yield started
    finally:
        for server in started:
            await server.stop()


def test_writes_are_forwarded_over_https_with_certificates_and_passwords(node: EmbeddedNode, tmp_path: Path) -> None:
    trusted = authority(tmp_path, "ca")
    keys = trusted.issue("registry")

    async def start() -> RegistryServer:
        settings = RegistrySettings(
            reaching(node.bootstrap), topic="_https", forwarding_tls=ClientTls(trusted.ca_file, keys)
        )
        return await RegistryServer.start(
            settings,
            SocketNetwork(),
            SystemClock(),
            "127.0.0.1",
            0,
            tls=ServerTls(keys, ClientAuth.REQUIRED, trusted.ca_file),
            credentials=USERS,
        )

    async def check() -> None:
        async with serving(start, start) as (first, second):
            assert first.url.startswith("https://")
            assert (await post(first, trusted.ca_file, keys, "a", BASIC)).body["id"] == 1
            # It has read who writes.
            await second.registry.replica.catch_up()
            passed_on = await post(second, trusted.ca_file, keys, "b", BASIC)
            assert (passed_on.status, passed_on.body["version"]) == (200, 1)
            # It did not take over: the first one writes still.
            assert second.registry.other_writer == first.url
            assert first.registry.other_writer is None
            assert (await post(second, trusted.ca_file, keys, "c", {})).status == 401

    asyncio.run(check())


async def post(server: RegistryServer, ca_file: str, keys: KeyPair, subject: str, headers: dict[str, str]) -> Reply:
    context = ssl.create_default_context(cafile=ca_file)
    context.load_cert_chain(keys.certificate_file, keys.key_file)

    def ask() -> Reply:
        import http.client
        import json

        address = server.url.removeprefix("https://")
        connection = http.client.HTTPSConnection(address, timeout=30, context=context)
        sent = {"content-type": "application/json"} | headers
        connection.request("POST", f"/subjects/{subject}/versions", json.dumps({"schema": '"int"'}), sent)
        answer = connection.getresponse()
        body = json.loads(answer.read())
        connection.close()
        return Reply(answer.status, body, "")

    return await asyncio.to_thread(ask)


def test_registry_takes_over_where_the_writer_is_gone(node: EmbeddedNode) -> None:
    async def start() -> RegistryServer:
        settings = RegistrySettings(reaching(node.bootstrap), topic="_gone")
        return await RegistryServer.start(settings, SocketNetwork(), SystemClock(), "127.0.0.1", 0)

    async def check() -> None:
        async with serving(start) as (survivor,):
            writer = await start()
            assert (await asyncio.to_thread(Rest(writer.url).register, "s", record("R", "x"))).body["version"] == 1
            await writer.stop()
            assert (await asyncio.to_thread(Rest(survivor.url).register, "s", record("R", "x", "y=1"))).body[
                "version"
            ] == 2
            assert survivor.registry.other_writer is None

    asyncio.run(check())


def test_forwarded_request_is_refused_by_a_registry_that_does_not_write_any_more(node: EmbeddedNode) -> None:
    async def start() -> RegistryServer:
        settings = RegistrySettings(reaching(node.bootstrap), topic="_moved")
        return await RegistryServer.start(settings, SocketNetwork(), SystemClock(), "127.0.0.1", 0)

    async def check() -> None:
        async with serving(start, start) as (first, second):
            await asyncio.to_thread(Rest(first.url).register, "s", '"int"')
            await second.registry.replica.catch_up()

            def pass_on() -> Reply:
                return Rest(second.url)(
                    "POST", "/subjects/t/versions", {"schema": '"long"'}, headers={"x-forward": "true"}
                )

            reply = await asyncio.to_thread(pass_on)
            assert (reply.status, reply.code) == (500, 50004)
            assert first.registry.other_writer is None

    asyncio.run(check())


def test_write_without_a_broker_ends_by_its_deadline() -> None:
    async def check(running: EmbeddedNode) -> None:
        async def start() -> RegistryServer:
            settings = RegistrySettings(reaching(running.bootstrap), timeout_s=0.5)
            return await RegistryServer.start(settings, SocketNetwork(), SystemClock(), "127.0.0.1", 0)

        async with serving(start) as (server,):
            rest = Rest(server.url)
            assert (await asyncio.to_thread(rest.register, "s", '"int"')).status == 200
            await asyncio.to_thread(running.close)
            reply = await asyncio.to_thread(rest.register, "s", '"long"')
            assert (reply.status, reply.code) == (500, 50002)
            # Reads need no broker.
            assert (await asyncio.to_thread(rest, "GET", "/subjects")).body == ["s"]

    with cordwood.testing.node() as running:
        assert isinstance(running, EmbeddedNode)
        asyncio.run(check(running))


def test_topic_is_not_created_with_fewer_replicas_than_are_wanted(node: EmbeddedNode) -> None:
    async def start() -> None:
        settings = RegistrySettings(reaching(node.bootstrap), "_three", replication_factor=3, init_timeout_s=0.3)
        await RegistryServer.start(settings, SocketNetwork(), SystemClock(), "127.0.0.1", 0)

    with pytest.raises(UnusableTopic, match=r"_three must have 3 replicas, but the cluster has 1 brokers .*factor"):
        asyncio.run(start())


def test_registry_that_listens_on_every_address_is_advertised_by_a_name(node: EmbeddedNode) -> None:
    async def start() -> RegistryServer:
        settings = RegistrySettings(reaching(node.bootstrap))
        return await RegistryServer.start(settings, SocketNetwork(), SystemClock(), "0.0.0.0", 0)

    async def check() -> None:
        async with serving(start) as (server,):
            assert server.registry.url.startswith(f"http://{platform.node()}:")

    asyncio.run(check())


def test_advertised_urls_name_a_host() -> None:
    assert parse_listener("https://[::1]") == ("::1", 8081, True)
    assert reached_at(Address("0.0.0.0", 1), is_https=False, node_host="registry1") == "http://registry1:1"
    assert reached_at(Address("::1", 1), is_https=True, node_host="registry1") == "https://[::1]:1"
    assert check_advertised("http://registry1:8081/") == "http://registry1:8081"
    for url in ("http://0.0.0.0:8081", "registry1:8081", "ftp://registry1", "http://registry1/x"):
        with pytest.raises(ValueError, match=r"URL|address"):
            check_advertised(url)
