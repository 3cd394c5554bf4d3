"""Coordinators that are where a test says."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from tests.client.scripted_broker import ScriptedBroker


def run(main: Coroutine[Any, Any, None]) -> None:
    async def patiently() -> None:
        async with asyncio.timeout(60):
            await main

    asyncio.run(patiently())


class Coordinators:
    """Coordinators by broker; any other broker answers NOT_COORDINATOR."""

    def __init__(self, brokers: list[ScriptedBroker], default: int = 1) -> None:
        self.of: dict[str, int] = {}
        self.default = default
        self.errors: list[int] = []
        """What the next questions for a coordinator are answered with."""
        for broker in brokers:
            broker.answers[FindCoordinatorRequest.api_key] = self._find

    def _find(self, request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
        error = self.errors.pop(0) if self.errors else ErrorCode.NONE
        if version < 4:
            return FindCoordinatorResponse(node_id=self.of.get(request.key, self.default), error_code=error)
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(key=key, node_id=self.of.get(key, self.default), error_code=error)
                for key in request.coordinator_keys
            ]
        )
