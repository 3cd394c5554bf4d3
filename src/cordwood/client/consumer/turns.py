"""Coordinates the tasks that wait for a consumer's records."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from cordwood.client.arguments import timeout_of
from cordwood.client.consumer.running import Running
from cordwood.client.consumer.subscription import Subscription
from cordwood.client.errors import Closed, IllegalState, WakeupError

T = TypeVar("T")


class ReadingTurns:
    """Allows one task at a time."""

    def __init__(self, subscription: Subscription) -> None:
        self.is_taken = False
        self.is_woken = False
        """Wakes the waiting task, or else the next one."""
        self.is_over = False
        """True while the consumer is being closed."""
        self._subscription = subscription

    async def next(self, running: Running, take: Callable[[], T], timeout_ms: float | None) -> T:
        """Calls `take` until it returns something, or the timeout expires. In between, handles rebalances and
        callbacks."""
        timeout_of(timeout_ms)
        loop = running.loop
        deadline_s = None if timeout_ms is None else loop.time() + timeout_ms / 1000
        with self._taken(running):
            # A caller that always finds records must not starve the tasks that fetch more.
            await asyncio.sleep(0)
            while True:
                running.reader.news.clear()
                self._check()
                await running.settle()
                # A listener may have closed the consumer.
                self._check()
                found = take()
                if found or (deadline_s is not None and loop.time() >= deadline_s):
                    return found
                await running.wait(deadline_s)

    @contextmanager
    def _taken(self, running: Running) -> Iterator[None]:
        self._check()
        if self.is_taken:
            raise IllegalState("another task is reading with this consumer")
        self.is_taken = True
        try:
            with running.polling():
                yield
        finally:
            self.is_taken = False

    def _check(self) -> None:
        if self.is_over:
            raise Closed("the consumer was closed")
        if self.is_woken:
            self.is_woken = False
            raise WakeupError("wakeup() was called")
        if not self._subscription.states and not self._subscription.is_group_managed:
            raise IllegalState("nothing to poll: call subscribe() or assign() first")
