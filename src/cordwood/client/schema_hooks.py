"""Optional abilities of serializers besides converting values to bytes: seeing the topic, adding and reading headers,
and loading data without blocking the event loop. Those of `cordwood.registry` have them; any other may."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, runtime_checkable

from cordwood.client.errors import SerializationFailed


@runtime_checkable
class RecordSerializer(Protocol):
    """A serializer that gets the topic, and may add the schema as a header."""

    def serialize(
        self, topic: str, content: Any, *, is_key: bool
    ) -> tuple[bytes | None, Sequence[tuple[str, bytes | None]]]:
        """Returns the bytes, and headers for the record."""


@runtime_checkable
class RecordDeserializer(Protocol):
    """A deserializer that gets the record's headers."""

    def deserialize(self, data: bytes, headers: Iterable[tuple[str, bytes | None]], *, is_key: bool) -> Any: ...


class NeedsLoading(Exception):
    """Raised by a serializer that is called on an event loop and would block. `load` is called in a thread, and then
    the serializer again."""

    def __init__(self, what: str, load: Callable[[], object]) -> None:
        super().__init__(what)
        self.load = load


async def load_for(error: SerializationFailed) -> None:
    """Returns once the call may be repeated. Raises `error` if that is useless; wraps errors of the loading in
    `SerializationFailed`."""
    needed = error.__cause__
    if not isinstance(needed, NeedsLoading):
        raise error
    try:
        await asyncio.to_thread(needed.load)
    except Exception as failure:
        raise SerializationFailed(f"{needed}: {failure}", error.partition, error.offset) from failure


def load_now(error: SerializationFailed) -> None:
    """Like `load_for`, in this thread."""
    if not isinstance(error.__cause__, NeedsLoading):
        raise error
    error.__cause__.load()


def or_load(what: str, load: Callable[[], object]) -> None:
    """Loads now, or raises `NeedsLoading` on an event loop's thread."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        load()
    else:
        raise NeedsLoading(what, load)
