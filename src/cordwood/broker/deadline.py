"""How long a client waits for what the controller decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from cordwood.metadata.image import MetadataImage
from cordwood.shard.decision import Decision

from .controller import Controller

R = TypeVar("R")


async def decide_within(
    timeout_ms: int, controller: Controller, decision: Callable[[MetadataImage], Decision[R]]
) -> R | None:
    """What was decided; None if it is not committed in time: then it may still come to be. Without any time nothing is
    decided, as in Kafka."""
    if timeout_ms <= 0:
        return None
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            return await controller.decide(decision)
    except TimeoutError:
        return None
