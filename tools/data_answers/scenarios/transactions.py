"""Transactions as seen by read_committed consumers."""

from __future__ import annotations

from data_answers.asking import Asking
from data_answers.batches import batch
from data_answers.requests import fetch, list_offsets, produce

_COMMITTED = 1


async def read_committed(ask: Asking) -> None:
    await ask.create("t", 1)
    await ask.quietly(produce("t", batch("before")), 9)
    aborted = await ask.broker.transaction("t", 0, "aborted")
    ask.name(aborted.producer_id, "aborted")
    await aborted.write("a0", "a1")
    await ask.quietly(produce("t", batch("between")), 9)
    await _look(ask, "while it is open")
    committed = await ask.broker.transaction("t", 0, "committed")
    ask.name(committed.producer_id, "committed")
    await committed.write("c0")
    second = await ask.broker.transaction("t", 0, "second")
    ask.name(second.producer_id, "second")
    await second.write("s0")
    await second.end(commit=False)
    await _look(ask, "the second is over first")
    await committed.end(commit=True)
    await _look(ask, "the first is open still")
    await aborted.end(commit=False)
    await _look(ask, "all are over")


async def _look(ask: Asking, words: str) -> None:
    for level in (0, _COMMITTED):
        for offset in (0, 1, 3, 4, 8):
            await ask(f"{words}: level {level} from {offset}", fetch({("t", 0): offset}, isolation_level=level), 12)
        for timestamp in (-1, -2, -3, 0):
            await ask(
                f"{words}: level {level}, timestamp {timestamp}",
                list_offsets({("t", 0): timestamp}, isolation_level=level),
                11,
            )
    small = fetch({("t", 0): 0}, isolation_level=_COMMITTED, max_bytes=1)
    await ask(f"{words}: the first batch", small, 12)
