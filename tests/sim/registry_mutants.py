"""Schema registries that are broken on purpose."""

from collections.abc import Mapping

import pytest

from cordwood.registry.fenced_log import FencedLog, ProducerStamp
from cordwood.registry.writer import Writer
from tests.sim.mutants import Mutant


def begin_without_a_fence(patch: pytest.MonkeyPatch) -> None:
    """A new writer reads only known records, and does not fence the partition."""

    async def silent(self: FencedLog, _previous: ProducerStamp | None, _headers: Mapping[str, bytes]) -> int:
        await self._client.topics([self._partition.topic], timeout_s=self._timeout_s)
        self._stamp = await self._new_epoch()
        self._next_sequence = 0
        self._valid_until_s, self._valid_until_ms = float("inf"), 1 << 62
        return 0

    patch.setattr(FencedLog, "take_over", silent)


def begin_without_reading_to_the_fence(patch: pytest.MonkeyPatch) -> None:
    async def begin(self: Writer) -> None:
        await self._log.take_over(self._replica.last_producer, self._headers)
        self._state = self._replica.state.copy()

    patch.setattr(Writer, "take_over", begin)


REGISTRY_MUTANTS: list[Mutant] = [
    begin_without_a_fence,
    begin_without_reading_to_the_fence,
]
