"""Optional abilities of serializers besides turning a value into bytes: see the topic, add and read headers, and load
what they need without blocking the event loop. Those of `cordwood.registry` do; any other may."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from cordwood.client.errors import SerializationFailed


@runtime_checkable
class RecordSerializer(Protocol):
    """A serializer that is told of the record, and may name the schema in a header."""

    def serialize(
        self, topic: str, content: Any, *, is_key: bool
    ) -> tuple[bytes | None, Sequence[tuple[str, bytes | None]]]:
        """The bytes, and headers for the record."""


@runtime_checkable
class RecordDeserializer(Protocol):
    """A deserializer that is told of the record's headers."""

    def deserialize(self, data: bytes, headers: Iterable[tuple[str, bytes | None]], *, is_key: bool) -> Any: ...


class NeedsLoading(Exception):
    """Raised by a serializer that is called on an event loop and would block. `load` is called in a thread, and then
    the serializer again."""

    def __init__(self, what: str, load: Callable[[], object]) -> None:
        super().__init__(what)
        self.load = load


async def load_for(error: SerializationFailed) -> None:
    """Returns once the same call may be repeated. Raises `error` if that is of no use, and what the loading raises as a
    `SerializationFailed`."""
    needed = error.__cause__
    if not isinstance(needed, NeedsLoading):
        raise error
    try:
        await asyncio.to_thread(needed.load)
    except Exception as failure:
        raise SerializationFailed(f"{needed}: {failure}", error.partition, error.offset) from failure


def load_now(error: SerializationFailed) -> None:
    """As `load_for`, in this thread."""
    if not isinstance(error.__cause__, NeedsLoading):
        raise error
    error.__cause__.load()


def or_load(what: str, load: Callable[[], object]) -> None:
    """Loads here and now, or raises `NeedsLoading` if this is the thread of an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        load()
    else:
        raise NeedsLoading(what, load)
