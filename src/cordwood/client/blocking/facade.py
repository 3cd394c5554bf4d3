"""Common parts of the sync clients: the thread with a loop behind them, and shutdown."""

import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from cordwood.client.blocking.portal import Portal
from cordwood.client.errors import IllegalState
from cordwood.runtime.background import at_exit

T = TypeVar("T")

# Grace period for unclosed clients at interpreter exit.
EXIT_TIMEOUT_S = 10.0


class Facade(ABC):
    """Closed by `close`, at the end of `with`, or at interpreter exit. A client that is garbage-collected before that
    finishes in the background, with a ResourceWarning."""

    def __init__(self, name: str) -> None:
        self._portal = Portal(name)
        self._name = name
        self._is_open = False
        self._stay_at_exit: Callable[[], None] = _nothing

    def _opened(self) -> None:
        """Registers the client for closing."""
        self._is_open = True
        self._stay_at_exit = at_exit(_closing(weakref.ref(self)))

    def _run(self, work: Coroutine[Any, Any, T], undelivered: Callable[[T], None] | None = None) -> T:
        return self._portal.run(work, undelivered=undelivered)

    def _end(self, last_work: Coroutine[Any, Any, None]) -> None:
        """Does the last work once, and ends the thread in any case."""
        if not self._is_open:
            last_work.close()
            return
        try:
            self._portal.check_thread()
        except IllegalState:
            last_work.close()
            raise
        self._is_open = False
        self._stay_at_exit()
        try:
            if self._portal.background.forked:
                # The thread and the connections belong to the parent process.
                last_work.close()
            else:
                self._portal.run(last_work)
        finally:
            self._portal.close()

    @abstractmethod
    def _last_work(self, timeout_s: float) -> Coroutine[Any, Any, None]:
        """The work of `close`, within this many seconds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._end(self._last_work(EXIT_TIMEOUT_S))

    def __del__(self) -> None:
        if not getattr(self, "_is_open", False) or self._portal.background.forked:
            return
        warnings.warn(f"{self._name} was not closed", ResourceWarning, source=self, stacklevel=2)
        self._stay_at_exit()
        self._portal.abandon(self._last_work(EXIT_TIMEOUT_S))


def _closing(facade: "weakref.ref[Facade]") -> Callable[[], None]:
    """Holds no reference that keeps the client alive."""

    def close() -> None:
        alive = facade()
        if alive is not None:
            alive._end(alive._last_work(EXIT_TIMEOUT_S))

    return close


def _nothing() -> None:
    return None
