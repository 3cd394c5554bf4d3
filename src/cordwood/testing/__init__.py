"""A real node for tests: no container, no JVM, ready in a fraction of a second.

    with cordwood.testing.node() as node:
        producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap})

The pytest plugin provides the fixture `cordwood_broker`; see docs/testing.md. pytest loads this module at every start,
so it imports its dependencies on first use.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, overload

if TYPE_CHECKING:
    from cordwood.testing.embedded import EmbeddedNode
    from cordwood.testing.local_cluster import LocalCluster
    from cordwood.testing.process import ProcessNode


class NodeError(Exception):
    """A node did not start, stopped unexpectedly, or cannot do what was requested; the text says why, with its log."""


@overload
def node(
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    subprocess: Literal[False] = False,
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    log_level: str | None = None,
    registry: bool = False,
) -> EmbeddedNode: ...


@overload
def node(
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    subprocess: Literal[True],
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    log_level: str | None = None,
    registry: bool = False,
) -> ProcessNode: ...


@overload
def node(
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    subprocess: bool,
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    log_level: str | None = None,
    registry: bool = False,
) -> EmbeddedNode | ProcessNode: ...


def node(
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    subprocess: bool = False,
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    log_level: str | None = None,
    registry: bool = False,
) -> EmbeddedNode | ProcessNode:
    """A node that runs within `with` or `async with`: on a thread of this process, or as a subprocess.

    `settings` are Kafka's: {"num.partitions": 3}. Without `data` it uses a temporary directory that is removed
    afterwards. Port 0 takes a free one, and keeps it over restarts. `log_level` is the level of `node.log` (default
    WARNING; in this process, as logging is configured). With `registry` it serves
    a schema registry at `node.registry_url`. Raises `NodeError` if the node cannot start.
    """
    from cordwood.testing.local_node import Setup

    texts = {name: _as_text(value) for name, value in (settings or {}).items()}
    setup = Setup(texts, None if data is None else os.fspath(data), port, log_level, registry)
    if subprocess:
        from cordwood.testing.process import ProcessNode

        return ProcessNode(setup)
    from cordwood.testing.embedded import EmbeddedNode

    return EmbeddedNode(setup)


def cluster(
    *,
    brokers: int = 3,
    controllers: int = 0,
    settings: Mapping[str, str | int | float | bool] | None = None,
    data: str | os.PathLike[str] | None = None,
    log_level: str | None = None,
) -> LocalCluster:
    """A cluster that runs within `with` or `async with`, each node in its own process.

    The first three brokers are controllers too, unless `controllers` asks for separate ones. New topics have three
    replicas, or as many as there are brokers. `settings`, `data` and `log_level` are as for `node`.
    """
    from cordwood.testing.local_cluster import LocalCluster

    texts = {name: _as_text(value) for name, value in (settings or {}).items()}
    return LocalCluster(brokers, controllers, texts, None if data is None else os.fspath(data), log_level)


def _as_text(value: str | int | float | bool) -> str:
    """Formats a value as in Kafka's properties files."""
    return str(value).lower() if isinstance(value, bool) else str(value)
