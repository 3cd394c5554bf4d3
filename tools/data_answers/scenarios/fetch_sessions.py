"""Fetch with sessions (KIP-227)."""

from __future__ import annotations

from data_answers.asking import Asking
from data_answers.batches import batch
from data_answers.requests import Place, fetch, produce


async def fetch_sessions(ask: Asking) -> None:
    await ask.create("s", 3)
    for partition in range(3):
        await ask.quietly(produce("s", batch(f"p{partition}"), partition=partition), 9)
    every: dict[Place, int] = {("s", 0): 0, ("s", 1): 0, ("s", 2): 0}

    for version in (7, 12):
        await _one_session(ask, every, version)

    await ask("no such session", fetch({}, session=(12345, 1)), 12)
    await ask("no session, epoch 1", fetch(every, session=(0, 1)), 12)
    await ask("no session, epoch 0, version 4", fetch(every, session=(0, -1)), 4)
    await ask("no such session, final epoch", fetch(every, session=(12345, -1)), 12)
    opened = await ask.quietly(fetch(every, session=(0, 0)), 12)
    ask.name(opened.session_id, "to be replaced")
    replaced = await ask.quietly(fetch(every, session=(opened.session_id, 0)), 12)
    assert replaced.session_id not in (0, opened.session_id)
    await ask("the session before", fetch({}, session=(opened.session_id, 1)), 12)
    await ask("an epoch too early", fetch({}, session=(replaced.session_id, 2)), 12)
    ask.name(replaced.session_id, "replaced")
    await ask("the same epoch", fetch({}, session=(replaced.session_id, 1)), 12)
    await ask("the same epoch again", fetch({}, session=(replaced.session_id, 1)), 12)
    await ask("a negative epoch", fetch({}, session=(replaced.session_id, -2)), 12)
    await ask("ids in a session of names", fetch({}, session=(replaced.session_id, 2)), 17)
    await ask("closed", fetch({}, session=(replaced.session_id, -1)), 12)
    await ask("after it was closed", fetch({}, session=(replaced.session_id, 2)), 12)

    opened = await ask.quietly(fetch({("s", 0): 0}, session=(0, 0)), 12)
    ask.name(opened.session_id, "forgetful")
    forget = fetch({}, session=(opened.session_id, 1), forgotten=(("s", 0), ("s", 9), ("none", 0)))
    await ask("all forgotten", forget, 12)
    await ask("all forgotten, and gone", fetch({}, session=(opened.session_id, 2)), 12)
    empty = await ask.quietly(fetch({}, session=(0, 0)), 12)
    ask.name(empty.session_id, "empty")
    await ask("opened with nothing", fetch({("s", 1): 0}, session=(empty.session_id, 1)), 12)

    opened = await ask.quietly(fetch({("s", 0): 99, ("none", 0): 0}, session=(0, 0)), 12)
    ask.name(opened.session_id, "wrong")
    await ask("what is wrong stays to be told", fetch({}, session=(opened.session_id, 1)), 12)
    await ask("until it is right", fetch({("s", 0): 1}, session=(opened.session_id, 2), forgotten=(("none", 0),)), 12)
    await ask("and then not", fetch({}, session=(opened.session_id, 3)), 12)

    await _by_id(ask)


async def _one_session(ask: Asking, every: dict[Place, int], version: int) -> None:
    first = await ask.quietly(fetch(every, session=(0, 0)), version)
    session = first.session_id
    ask.name(session, f"session {version}")
    assert session
    at_end = fetch({("s", 0): 10 * version, ("s", 1): 10 * version}, session=(session, 1))
    await ask("two are out of range", at_end, version)
    end: dict[Place, int] = (
        {("s", 0): 1, ("s", 1): 1, ("s", 2): 1} if version == 7 else {("s", 0): 3, ("s", 1): 1, ("s", 2): 2}
    )
    await ask("all at the end", fetch(end, session=(session, 2)), version)
    await ask("nothing new", fetch({}, session=(session, 3)), version)
    await ask.quietly(produce("s", batch(f"more of {version}"), partition=0), 9)
    await ask.quietly(produce("s", batch(f"more of {version}"), partition=2), 9)
    await ask("two have more", fetch({}, session=(session, 4)), version)
    await ask("still, in another order", fetch({("s", 1): 0}, session=(session, 5)), version)
    await ask("little room: the first", fetch({}, session=(session, 6), max_bytes=1), version)
    await ask("little room: the next", fetch({}, session=(session, 7), max_bytes=1), version)
    await ask("little room: the last", fetch({}, session=(session, 8), max_bytes=1), version)
    await ask("one is forgotten", fetch({}, session=(session, 9), forgotten=(("s", 0),)), version)
    await ask("one comes back", fetch({("s", 0): 0}, session=(session, 10)), version)
    await ask.quietly(produce("s", batch("for the next round"), partition=0), 9)
    await ask("the last", fetch({}, session=(session, -1)), version)
    await ask("with what is wanted", fetch({("s", 1): 0}, session=(session, -1)), version)


async def _by_id(ask: Asking) -> None:
    topic_id = await ask.create("byid", 2)
    await ask.quietly(produce("byid", batch("x")), 9)
    unknown = b"\x01" * 16
    opened = await ask.quietly(fetch({(topic_id, 0): 0, (unknown, 0): 0, (topic_id, 1): 0}, session=(0, 0)), 17)
    session = opened.session_id
    ask.name(session, "by id")
    await ask("by id", fetch({}, session=(session, 1)), 17)
    await ask("names in a session of ids", fetch({}, session=(session, 2)), 12)
    await ask("one is forgotten by id", fetch({}, session=(session, 2), forgotten=((unknown, 0),)), 17)
    await ask.broker.delete("byid")
    await ask("the topic was deleted", fetch({}, session=(session, 3)), 17)
    await ask.create("byid", 2)
    await ask("and made again", fetch({}, session=(session, 4)), 17)
    await ask("asked anew", fetch({(topic_id, 0): 0}, session=(0, -1)), 17)
