"""One broker that is asked: requests in, answers kept as JSON that can be compared."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, Protocol

from cordwood.net.peers.channel import Channel
from cordwood.runtime.network import NetworkError
from cordwood.wire.batch_header import batch_headers, whole_batches_length
from cordwood.wire.message_json import message_to_json
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.fetch import FetchRequest
from cordwood.wire.primitives import Uuid, uuid_text
from cordwood.wire.records import decode_batch
from cordwood.wire.schema import Request, ResponseT

Json = Any

# Times from here on are those of the broker's clock, earlier ones those that were sent to it.
RECENTLY = 1_760_000_000_000


class Asked(Protocol):
    """The broker under test, and what is done to it in its own way."""

    @property
    def port(self) -> int: ...

    async def connect(self) -> Channel: ...

    async def create(self, topic: str, partitions: int, configs: dict[str, str]) -> Uuid:
        """Returns when its partitions are led."""

    async def delete(self, topic: str) -> None: ...

    async def transaction(self, topic: str, partition: int, name: str) -> Transaction: ...


class Transaction(Protocol):
    @property
    def producer_id(self) -> int: ...

    async def write(self, *values: str) -> None: ...

    async def end(self, *, commit: bool) -> None: ...


class Asking:
    """Keeps every answer under the words that say what it is about."""

    def __init__(self, broker: Asked) -> None:
        self.broker = broker
        self.answers: list[Json] = []
        self._names: dict[object, str] = {}
        self._channel: Channel | None = None

    async def create(self, topic: str, partitions: int = 1, **configs: str) -> Uuid:
        """Keys of `configs` with underscores for dots."""
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        topic_id = await self.broker.create(topic, partitions, settings)
        self.name(uuid_text(topic_id), f"id:{topic}")
        return topic_id

    def name(self, value: object, name: str) -> None:
        """Names a broker-specific value, for use in the recorded answers."""
        self._names[value] = name

    async def __call__(self, words: str, request: Request[ResponseT], version: int) -> ResponseT:
        response = await self.quietly(request, version)
        answer = message_to_json(response, version)
        # Where Kafka uses a hash map, the order of its answers means nothing.
        self.keep(words, version, answer if isinstance(request, FetchRequest) else _sorted(answer))
        return response

    async def waiting(self, words: str, request: FetchRequest, version: int) -> None:
        """A fetch that may wait: whether it did is part of the answer."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        response = await self.quietly(request, version)
        has_waited = loop.time() - begun >= request.max_wait_ms / 1000
        words += " (waited)" if has_waited else " (at once)"
        self.keep(words, version, message_to_json(response, version))

    async def all_versions(self, words: str, request: Request[ResponseT], versions: Sequence[int]) -> None:
        for version in versions:
            await self(words, request, version)

    async def closes(self, words: str, request: Request[Any], version: int, *, no_answer: bool = False) -> None:
        """Records whether the connection survives. With `no_answer`, does not wait for one."""
        channel = await self.broker.connect()
        try:
            if no_answer:
                await channel.send_only(request, version)
                await channel.request(ApiVersionsRequest(), 0)
            else:
                await channel.request(request, version)
            self.keep(words, version, "served")
        except NetworkError:
            self.keep(words, version, "closed")
        finally:
            channel.close()

    async def quietly(self, request: Request[ResponseT], version: int) -> ResponseT:
        """Asks and keeps nothing."""
        if self._channel is None:
            self._channel = await self.broker.connect()
        return await self._channel.request(request, version)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def keep(self, words: str, version: int, answer: Json) -> None:
        self.answers.append({"asked": words, "version": version, "answer": self._told("", answer)})

    def _told(self, key: str, value: Json) -> Json:
        if isinstance(value, dict):
            # In words every broker is its own.
            return {name: self._told(name, item) for name, item in value.items() if not name.endswith("rrorMessage")}
        if isinstance(value, list):
            told = [self._told(key, item) for item in value]
            # Kafka has them in the order in which they ended; clients need them by where they begin.
            return sorted(told, key=itemgetter("firstOffset")) if key == "abortedTransactions" else told
        if key in ("logAppendTimeMs", "lastTimestamp", "timestamp"):
            return value if value < RECENTLY else "now"
        if key == "records" and value is not None:
            return list(_batches_told(b64decode(value)))
        if key == "port" and value == self.broker.port:
            return "port"
        if key in ("sessionId", "producerId", "previousProducerId", "topicId"):
            return self._names.get(value, "new" if key == "producerId" and value >= 0 else value)
        return value


def _sorted(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _sorted(item) for name, item in value.items()}
    if isinstance(value, list):
        items = [_sorted(item) for item in value]
        return sorted(items, key=json.dumps) if all(isinstance(item, dict) for item in items) else items
    return value


def _batches_told(data: bytes) -> Iterator[str]:
    """Each batch in a line, as a person would want to see it; what is cut short by its size."""
    whole = whole_batches_length(data)
    for position, header in batch_headers(data[:whole]):
        values = [(record.value or b"").decode(errors="replace")[:20] for record in decode_batch(data, position)]
        kind = "control" if header.is_control else "batch"
        # How well a codec compresses is no one's business here.
        size = "" if header.codec else f", {header.size} bytes"
        told = "marker" if header.is_control else ", ".join(values)
        yield f"{kind} {header.base_offset}-{header.last_offset} epoch {header.leader_epoch}{size}: {told}"
    if whole < len(data):
        yield f"{len(data) - whole} bytes"
