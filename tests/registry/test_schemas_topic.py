"""The schemas topic: what is in it, what is refused, and several registries over it."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

import cordwood.testing
from cordwood import Admin, Consumer, NewTopic, TopicPartition
from cordwood.client.offsets import OffsetSpec
from cordwood.registry.errors import UnusableTopic
from cordwood.registry.registry import RegistrySettings, reaching
from cordwood.registry.server import RegistryServer
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from tests.registry.registry_fixtures import Reply, Rest, record


@asynccontextmanager
async def registries(
    bootstrap: str, count: int, topic: str = "_schemas", timeout_s: float = 15.0
) -> AsyncIterator[list[RegistryServer]]:
    started: list[RegistryServer] = []
    try:
        for _ in range(count):
            settings = RegistrySettings(reaching(bootstrap), topic, timeout_s=timeout_s)
            started.append(await RegistryServer.start(settings, SocketNetwork(), SystemClock(), "127.0.0.1", 0))
        yield started
    finally:
        for server in started:
            await server.stop()


def test_records_have_the_layout_of_confluents_registry() -> None:
    with cordwood.testing.node(registry=True) as node:
        rest = Rest(node.registry_url)
        rest.register("s", record("R", "x"))
        rest("PUT", "/config/s", {"compatibility": "FULL"})
        rest("PUT", "/mode", {"mode": "READWRITE"})
        rest("DELETE", "/subjects/s")
        rest("DELETE", "/subjects/s?permanent=true")
        partition = TopicPartition("_schemas", 0)
        with Consumer(bootstrap_servers=node.bootstrap, isolation_level="read_committed") as consumer:
            consumer.assign([partition])
            consumer.seek_to_beginning(partition)
            found: list[tuple[str, Any]] = []
            while len(found) < 8:
                for records in consumer.poll(timeout_ms=1000).values():
                    found += [
                        (each.key.decode(), None if each.value is None else json.loads(each.value)) for each in records
                    ]
    # How a writer begins: Confluent's registry writes and ignores such records, too.
    assert found.pop(0) == ('{"keytype":"NOOP","magic":0}', None)
    keys = [key for key, _ in found]
    assert keys[:5] == [
        '{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}',
        '{"keytype":"CONFIG","subject":"s","magic":0}',
        '{"keytype":"MODE","magic":0}',
        '{"keytype":"DELETE_SUBJECT","subject":"s","magic":0}',
        '{"keytype":"CONFIG","subject":"s","magic":0}',
    ]
    value = found[0][1]
    assert value is not None
    assert {name: value[name] for name in ("subject", "version", "id", "deleted")} == {
        "subject": "s",
        "version": 1,
        "id": 1,
        "deleted": False,
    }
    assert found[3][1] == {"subject": "s", "version": 1}
    assert found[-1] == ('{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}', None)


def test_schemas_outlive_a_restart() -> None:
    with cordwood.testing.node(registry=True) as node:
        first = Rest(node.registry_url).register("s", record("R", "x"))
        node.restart()
        rest = Rest(node.registry_url)
        assert rest.register("s", record("R", "x")).body == first.body
        assert rest.register("t", record("Q")).body["id"] == 2


def test_ids_outlive_the_schema_that_had_them_and_a_restart() -> None:
    with cordwood.testing.node(registry=True) as node:
        rest = Rest(node.registry_url)
        rest.register("s", record("R", "x"))
        rest("DELETE", "/subjects/s")
        rest("DELETE", "/subjects/s?permanent=true")
        node.restart()
        assert Rest(node.registry_url).register("s", record("Q")).body["id"] == 2


@pytest.mark.parametrize(
    ("topic", "reason"),
    [
        (NewTopic("_schemas", 1, configs={"cleanup.policy": "delete"}), "cordwood config set topic _schemas"),
        (NewTopic("_schemas", 1, configs={"cleanup.policy": "compact,delete"}), "cordwood config set topic _schemas"),
        (NewTopic("_schemas", 2, configs={"cleanup.policy": "compact"}), "2 partitions"),
    ],
)
def test_topic_that_would_lose_schemas_is_refused(topic: NewTopic, reason: str) -> None:
    async def start(bootstrap: str) -> None:
        async with registries(bootstrap, 1):
            pass

    with cordwood.testing.node() as node:
        with Admin(bootstrap_servers=node.bootstrap) as admin:
            admin.create_topics([topic])
        with pytest.raises(UnusableTopic, match=re.escape(reason)):
            asyncio.run(start(node.bootstrap))


def test_a_registry_serves_what_it_has_read_and_writes_nothing_to_another_topic_of_that_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def check(rest: Rest, admin: Admin) -> None:
        rest.register("s", record("R", "x"))
        admin.delete_topics(["_schemas"])
        assert rest.register("s", record("R", "x", "y=1")).status == 500
        # The registry's own clients do not have a broker create it, with a retention time.
        assert "_schemas" not in admin.list_topics(internal=True)
        admin.create_topics([NewTopic("_schemas", configs={"cleanup.policy": "compact"})])
        refused = rest.register("s", record("R", "x", "y=1"))
        assert refused.status == 500
        assert "Topic _schemas was deleted and created again" in refused.body["message"]
        assert "Topic _schemas was deleted and created again" in caplog.text
        assert rest("GET", "/subjects").body == ["s"]
        (end,) = admin.list_offsets({TopicPartition("_schemas", 0): OffsetSpec.LATEST}).values()
        assert end.offset == 0

    async def scene(bootstrap: str, admin: Admin) -> None:
        async with registries(bootstrap, 1, timeout_s=3.0) as (server,):
            await asyncio.to_thread(check, Rest(server.url), admin)

    with cordwood.testing.node() as node, Admin(bootstrap_servers=node.bootstrap) as admin:
        asyncio.run(scene(node.bootstrap, admin))


def test_unreadable_records_are_skipped() -> None:
    from cordwood import Producer

    with cordwood.testing.node() as node:
        with Admin(bootstrap_servers=node.bootstrap) as admin:
            admin.create_topics([NewTopic("_schemas", 1, configs={"cleanup.policy": "compact"})])
        with Producer(bootstrap_servers=node.bootstrap) as producer:
            producer.send("_schemas", "x", key="nonsense")
            producer.send("_schemas", "{}", key='{"keytype":"SCHEMA"}')
            producer.send("_schemas", None, key='{"keytype":"NOOP","magic":0}')

        async def check() -> Reply:
            async with registries(node.bootstrap, 1) as (server,):
                return await asyncio.to_thread(Rest(server.url).register, "s", '"int"')

        assert asyncio.run(check()).body["id"] == 1


async def _register_from_everywhere(bootstrap: str) -> None:
    """20 clients register the same and different schemas through three registries, of which the writer is stopped."""
    async with registries(bootstrap, 3) as servers:
        urls = [server.url for server in servers]
        await asyncio.to_thread(Rest(urls[0]).register, "first", '"int"')

        def client(number: int) -> list[tuple[str, Reply]]:
            done = []
            for turn in range(4):
                for subject, schema in (
                    (f"shared-{turn}", record("R", *(f"f{each}=0" for each in range(turn)))),
                    (f"own-{number}", record(f"Own{number}", *(f"f{each}=0" for each in range(turn)))),
                ):
                    reply = _persistently(urls, number, subject, schema)
                    done.append((schema, reply))
            return done

        # Threads of their own: the default ones are for the registries.
        loop, threads = asyncio.get_running_loop(), ThreadPoolExecutor(20)
        clients = [loop.run_in_executor(threads, client, number) for number in range(20)]
        while not any(task.done() for task in clients) and len(servers[1].registry.state.subjects) < 10:
            await asyncio.wait(clients, timeout=0.01)
        await servers[0].stop()
        replies = [each for done in await asyncio.gather(*clients) for each in done]
        ids: dict[str, set[int]] = {}
        for schema, reply in replies:
            assert reply.status == 200, reply
            ids.setdefault(schema, set()).add(reply.body["id"])
        assert all(len(found) == 1 for found in ids.values())
        assert max(Counter(next(iter(found)) for found in ids.values()).values()) == 1
        for server in servers[1:]:
            await server.registry.replica.catch_up()
            for subject, versions in server.registry.state.subjects.items():
                assert sorted(versions) == list(range(1, len(versions) + 1)), subject
            assert len(server.registry.state.subjects) == 1 + 4 + 20
        del servers[0]


def _persistently(urls: list[str], number: int, subject: str, schema: str) -> Reply:
    """As a client with several URLs: the next one is asked where one does not answer."""
    from cordwood.runtime.blocking_http import Unreachable

    for attempt in range(20):
        try:
            reply = Rest(urls[(number + attempt) % len(urls)]).register(subject, schema)
        except Unreachable:
            continue
        if reply.status < 500:
            return reply
    raise AssertionError("no registry answers")


def test_racing_clients_get_one_id_for_each_schema_while_the_writer_stops() -> None:
    with cordwood.testing.node() as node:
        asyncio.run(_register_from_everywhere(node.bootstrap))
