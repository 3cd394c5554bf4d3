"""An answer that is not there yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from cordwood.log.refusal import Refusal

T = TypeVar("T")


class Later(Generic[T]):
    """Comes to be once: a value, or why there is none. Whoever wants it says `then`; a state that keeps one (a member
    who waits for its group) has it answered by a later decision."""

    __slots__ = ("_listeners", "_outcome", "done")

    def __init__(self) -> None:
        self.done = False
        self._outcome: T | Refusal
        self._listeners: list[Callable[[T | Refusal], None]] = []

    def then(self, listener: Callable[[T | Refusal], None]) -> None:
        if self.done:
            listener(self._outcome)
        else:
            self._listeners.append(listener)

    def resolve(self, outcome: T | Refusal) -> None:
        """The first outcome is the one; what comes after it (an answer that had timed out) is dropped."""
        if not self.done:
            self.done = True
            self._outcome = outcome
            listeners, self._listeners = self._listeners, []
            for listener in listeners:
                listener(outcome)

    def result(self) -> T:
        """Once it is done: the value, or the Refusal raised."""
        if isinstance(self._outcome, Refusal):
            raise self._outcome
        return self._outcome


async def settled(result: T | Later[T]) -> T:
    """What a decision came to, for a coroutine; raises the Refusal that it may have come to."""
    if not isinstance(result, Later):
        return result
    if not result.done:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        result.then(lambda _outcome: None if future.done() else future.set_result(None))
        await future
    return result.result()
