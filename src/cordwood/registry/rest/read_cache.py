"""**ReadCache**: encoded responses to GETs, cached until the state changes. A fast path in front of all routes.

Every process of an application requests the same few schemas by id. Only responses with 200 are cached, and the
client's credentials are part of the key: an unauthorized request finds nothing here.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from cordwood.net.http.asgi import App, Message, Receive, Scope, Send
from cordwood.registry.replica import Replica

_CAPACITY = 2_000
_MAX_BODY_BYTES = 64 << 10
_SEEN_HEADERS = (b"accept", b"authorization")

Key = tuple[Any, ...]


class ReadCache:
    def __init__(self, app: App, replica: Replica) -> None:
        self._app = app
        self._replica = replica
        self._generation = -1
        self._answers: OrderedDict[Key, tuple[Message, Message]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        if self._generation != self._replica.generation:
            self._answers.clear()
            self._generation = self._replica.generation
        headers = tuple(pair for pair in scope["headers"] if pair[0] in _SEEN_HEADERS)
        key = (scope["raw_path"], scope["query_string"], headers)
        known = self._answers.get(key)
        if known is not None:
            self._answers.move_to_end(key)
            await send(dict(known[0]))
            await send(dict(known[1]))
            return
        await self._app(scope, receive, self._keeping(key, self._generation, send))

    def _keeping(self, key: Key, generation: int, send: Send) -> Send:
        start: Message = {}

        async def keep(message: Message) -> None:
            nonlocal start
            if message["type"] == "http.response.start":
                start = dict(message)
            elif self._is_kept(start, message) and generation == self._replica.generation:
                self._answers[key] = (start, dict(message))
                if len(self._answers) > _CAPACITY:
                    self._answers.popitem(last=False)
            await send(message)

        return keep

    def _is_kept(self, start: Message, body: Message) -> bool:
        return (
            start.get("status") == 200 and not body.get("more_body") and len(body.get("body", b"")) <= _MAX_BODY_BYTES
        )
