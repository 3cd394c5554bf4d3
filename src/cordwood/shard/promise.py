"""The promise: the one type for a result that comes later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from .refusal import Refusal

T = TypeVar("T")


class Promise(Generic[T]):
    """A write-once result (a value or a Refusal), delivered to callbacks.

    A state may keep one, such as that of a member waiting for its group to rebalance, and have a later decision resolve
    it.
    """

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
        """Only the first outcome counts; later ones (of a promise that has timed out) are dropped."""
        if not self.done:
            self.done = True
            self._outcome = outcome
            listeners, self._listeners = self._listeners, []
            for listener in listeners:
                listener(outcome)

    def result(self) -> T:
        """Returns the value, or raises the Refusal. Only once `done`."""
        if isinstance(self._outcome, Refusal):
            raise self._outcome
        return self._outcome


async def settled(result: T | Promise[T]) -> T:
    """Awaits a decision's result: returns the value, or raises the Refusal."""
    if not isinstance(result, Promise):
        return result
    if not result.done:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        result.then(lambda _outcome: None if future.done() else future.set_result(None))
        await future
    return result.result()
