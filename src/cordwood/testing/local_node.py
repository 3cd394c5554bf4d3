"""What both kinds of node for tests have in common: their data, their life, their topics."""

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
    # None is a temporary directory.
    data: str | None = None
    port: int = 0
    log_level: str | None = None


class LocalNode(ABC):
    """`with` starts and stops it, and so does `async with`. Its methods block; asyncio.to_thread takes them off a
    loop."""

    def __init__(self, setup: Setup) -> None:
        self.settings = setup.settings
        self._wanted_data = setup.data
        self._log_level = setup.log_level
        self._port = setup.port
        self._folder: Path | None = None
        self._bootstrap: str | None = None

    # ---- what tests ask of it

    @property
    def bootstrap(self) -> str:
        """For `bootstrap.servers`: "127.0.0.1:40123"."""
        if self._bootstrap is None:
            raise NodeError("the node is not running: use it within `with cordwood.testing.node() as node:`")
        return self._bootstrap

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
        """What it has logged, over restarts."""

    def topic(self, name: str | None = None, *, partitions: int = 1, configs: Mapping[str, str] | None = None) -> str:
        """Creates a topic, and returns its name; without a name it gets one that no other has.

        It asks the first listener, which must be one without TLS or SASL.
        """
        chosen = unique_name() if name is None else name
        create_topic(self.bootstrap, chosen, partitions, configs or {})
        return chosen

    # ---- its life

    def start(self) -> None:
        if self._bootstrap is not None:
            raise NodeError(f"the node is running already, at {self._bootstrap}")
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="cordwood-"))
        self._bootstrap = self._start()
        if "listeners" not in self.settings:
            # Clients find it again after a restart.
            self._port = int(self._bootstrap.rpartition(":")[2])

    def stop(self) -> None:
        """As SIGTERM does: finishes what is in work, flushes. Its data stays until `close`."""
        if self._bootstrap is not None:
            self._bootstrap = None
            self._stop()

    @abstractmethod
    def kill(self) -> None:
        """As SIGKILL does: nothing is finished."""

    def restart(self) -> None:
        """Stops it if it runs, and starts it on the same data and port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stops it and removes its data, unless that was given."""
        try:
            self.stop()
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
                self._folder = None

    @abstractmethod
    def _start(self) -> str:
        """Returns the bootstrap address once clients are served. Raises `NodeError`."""

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
