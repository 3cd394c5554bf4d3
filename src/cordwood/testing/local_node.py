"""Common base of both kinds of test nodes: data, life cycle, topics."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from cordwood.testing import NodeError
from cordwood.testing.topics import create_topic, unique_name


@dataclass(frozen=True, slots=True)
class Setup:
    settings: Mapping[str, str]
    # None means a temporary directory.
    data: str | None = None
    port: int = 0
    log_level: str | None = None
    registry: bool = False


class LocalNode(ABC):
    """`with` starts and stops it, and so does `async with`. Its methods block; use asyncio.to_thread on an event
    loop."""

    def __init__(self, setup: Setup) -> None:
        self.settings = setup.settings
        self._wanted_data = setup.data
        self._log_level = setup.log_level
        self._port = setup.port
        self._has_registry = setup.registry
        self._registry_port = 0
        self._registry_url: str | None = None
        self._folder: Path | None = None
        self._bootstrap: str | None = None

    # ---- for tests

    @property
    def bootstrap(self) -> str:
        """For `bootstrap.servers`: "127.0.0.1:40123"."""
        if self._bootstrap is None:
            raise NodeError("the node is not running: use it within `with cordwood.testing.node() as node:`")
        return self._bootstrap

    @property
    def registry_url(self) -> str:
        """The URL of its schema registry: "http://127.0.0.1:40124"."""
        if self._registry_url is None:
            raise NodeError("the node has no schema registry: start it by node(registry=True)")
        return self._registry_url

    @property
    def data(self) -> Path:
        """Its data directory."""
        if self._wanted_data is not None:
            return Path(self._wanted_data)
        if self._folder is None:
            raise NodeError("the node was not started: it has no data directory yet")
        return self._folder / "data"

    @property
    @abstractmethod
    def log(self) -> str:
        """Everything it has logged, across restarts."""

    def topic(self, name: str | None = None, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Creates a topic and returns its name; without a name, generates a unique one.

        Connects to the first listener, which must use neither TLS nor SASL.
        """
        chosen = unique_name() if name is None else name
        create_topic(self.bootstrap, chosen, partitions, configs or {})
        return chosen

    # ---- life cycle

    def start(self) -> None:
        if self._bootstrap is not None:
            raise NodeError(f"the node is running already, at {self._bootstrap}")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="cordwood-"))
        self._bootstrap, self._registry_url = self._start()
        if self._registry_url is not None:
            self._registry_port = int(self._registry_url.rpartition(":")[2])
        if "listeners" not in self.settings:
            # Clients find it again after a restart.
            self._port = int(self._bootstrap.rpartition(":")[2])

    def stop(self) -> None:
        """Stops like SIGTERM: finishes pending work and flushes. Its data stays until `close`."""
        if self._bootstrap is not None:
            self._bootstrap = None
            self._stop()

    @abstractmethod
    def kill(self) -> None:
        """Stops like SIGKILL: nothing is finished."""

    def restart(self) -> None:
        """Stops it if it runs, and starts it with the same data and port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops it and removes its data, unless the caller provided the directory."""
        try:
            self.stop()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    @abstractmethod
    def _start(self) -> tuple[str, str | None]:
        """Returns the bootstrap address, and the URL of the registry if it has one, once the node serves clients.

        Raises `NodeError`."""

    @abstractmethod
    def _stop(self) -> None: ...

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
