"""A real node for anyone's tests: no container, no JVM, ready in a fraction of a second.

    with cordwood.testing.node() as node:
        producer = confluent_kafka.Producer({"bootstrap.servers": node.bootstrap})

The pytest plugin has the fixture `cordwood_broker`; see docs/testing.md. pytest loads this module at every start, so it
imports what it needs when it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, overload

if TYPE_CHECKING:
    from cordwood.testing.embedded import EmbeddedNode
    from cordwood.testing.process import ProcessNode


class NodeError(Exception):
    """A node did not start, ended by itself, or cannot do what was asked; the text says why, with its log."""


@overload
def node(
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    subprocess: Literal[False] = False,
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    log_level: str | None = None,
) -> EmbeddedNode: ...


@overload
def node(
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    subprocess: Literal[True],
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    log_level: str | None = None,
) -> ProcessNode: ...


@overload
def node(
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    subprocess: bool,
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    log_level: str | None = None,
) -> EmbeddedNode | ProcessNode: ...


def node(
    *,
    settings: Mapping[str, str | int | float | bool] | None = None,
    subprocess: bool = False,
    data: str | os.PathLike[str] | None = None,
    port: int = 0,
    log_level: str | None = None,
) -> EmbeddedNode | ProcessNode:
    """A node that runs within `with` or `async with`: in this process on a thread of its own, or as a subprocess.

    `settings` are Kafka's: {"num.partitions": 3}. Without `data` it lives in a temporary directory that is removed
    afterwards. Port 0 takes a free one, and keeps it over restarts. `log_level`: what `node.log` holds (WARNING and
    above unless given; in this process, as logging is set up). Raises `NodeError` where the node cannot start.
    """
    from cordwood.testing.local_node import Setup

    texts = {name: _as_text(value) for name, value in (settings or {}).items()}
    setup = Setup(texts, None if data is None else os.fspath(data), port, log_level)
    if subprocess:
        from cordwood.testing.process import ProcessNode

        return ProcessNode(setup)
    from cordwood.testing.embedded import EmbeddedNode

    return EmbeddedNode(setup)


def _as_text(value: str | int | float | bool) -> str:
    """As Kafka's files spell it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
