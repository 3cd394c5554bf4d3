"""Registries beside the nodes of a cluster, as processes: nodes are killed while clients register schemas."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cordwood import Admin
from cordwood.client.admin.configs import ConfigResource, ConfigResourceType
from cordwood.runtime.blocking_http import Unreachable
from tests.local.local_nodes import ThreeNodes
from tests.registry.registry_fixtures import Reply, Rest, record

CLIENTS = 20
TURNS = 4


class RegistryNodes(ThreeNodes):
    """Three nodes that are started together, each with a registry."""

    def __init__(self, folder: Path) -> None:
        # Patience for a machine that is busy with other tests.
        settings = {"cordwood.registry.listeners": "http://127.0.0.1:0", "cordwood.registry.init.timeout.ms": "300000"}
        super().__init__(folder, is_static=True, settings=settings)

    def urls(self) -> dict[int, str]:
        return {
            node_id: process.await_line("is ready")[0].rpartition("schema registry at ")[2].strip()
            for node_id, process in self._processes.items()
        }


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[RegistryNodes]:
    running = RegistryNodes(tmp_path)
    with running:
        yield running


def test_topic_has_three_replicas_and_writes_continue_when_nodes_are_killed(nodes: RegistryNodes) -> None:
    """20 clients register the same and different schemas while the node is killed that leads the partition, or writes
    schemas: there is one id for each schema, no gap in versions, and nothing is lost."""
    urls = nodes.urls()
    with Admin(bootstrap_servers=nodes.bootstrap) as admin:
        partition = admin.describe_topics(["_schemas"])["_schemas"].partitions[0]
        resource = ConfigResource(ConfigResourceType.TOPIC, "_schemas")
        entries = admin.describe_configs([resource], ["min.insync.replicas"])[resource]
    assert len(partition.replicas) == 3
    assert [entry.value for entry in entries] == ["2"]
    victim = partition.leader
    assert victim is not None
    # So that the node that dies is the writer, too.
    assert Rest(urls[victim]).register("first", '"int"').status == 200
    halfway = threading.Barrier(CLIENTS + 1)

    def client(number: int) -> list[tuple[str, str, Reply]]:
        done = []
        for turn in range(TURNS):
            if turn == TURNS // 2:
                halfway.wait()
            for subject, schema in (
                (f"shared-{turn}", record("R", *(f"f{each}=0" for each in range(turn)))),
                (f"own-{number}", record(f"Own{number}", *(f"f{each}=0" for each in range(turn)))),
            ):
                done.append((subject, schema, persistently(list(urls.values()), number, subject, schema)))
        return done

    with ThreadPoolExecutor(CLIENTS) as threads:
        clients = [threads.submit(client, number) for number in range(CLIENTS)]
        halfway.wait()
        nodes.kill(victim)
        replies = [each for task in clients for each in task.result()]
    ids: dict[str, set[int]] = {}
    for _, schema, reply in replies:
        assert reply.status == 200, reply
        ids.setdefault(schema, set()).add(reply.body["id"])
    assert all(len(found) == 1 for found in ids.values()), "a schema has two ids"
    assert max(Counter(next(iter(found)) for found in ids.values()).values()) == 1, "two schemas have one id"
    for survivor in (url for node_id, url in urls.items() if node_id != victim):
        rest = Rest(survivor)
        # A write: what it answers for is in this registry's state.
        assert rest.register("last", '"string"').status == 200
        for subject, schema, reply in replies:
            assert rest("GET", f"/subjects/{subject}/versions/{reply.body['version']}").body["schema"] == schema
        for subject in rest("GET", "/subjects").body:
            versions = rest("GET", f"/subjects/{subject}/versions").body
            assert versions == list(range(1, len(versions) + 1)), subject


def persistently(urls: list[str], number: int, subject: str, schema: str) -> Reply:
    """As a client with several URLs: the next one is asked where one does not answer."""

    def ask(url: str) -> Reply | None:
        try:
            reply = Rest(url).register(subject, schema)
        except Unreachable:
            return None
        return reply if reply.status < 500 else None

    return first_of(lambda attempt: ask(urls[(number + attempt) % len(urls)]))


def first_of(ask: Callable[[int], Reply | None]) -> Reply:
    for attempt in range(30):
        reply = ask(attempt)
        if reply is not None:
            return reply
    raise AssertionError("no registry answers")
