"""How long a client waits for what the controller decides."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

R = TypeVar("R")


async def within(timeout_ms: int, decision: Awaitable[R]) -> R | None:
    """What was decided; None if it is not committed in time. Then it may still come to be, as in Kafka."""
    try:
        async with asyncio.timeout(max(0, timeout_ms) / 1000):
            return await decision
    except TimeoutError:
        return None
