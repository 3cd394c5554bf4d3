"""Serializes the application's keys, values and headers."""

from collections.abc import Mapping
from typing import Any

from cordwood.client.errors import SerializationFailed
from cordwood.client.producer.batch import GivenHeaders, Headers
from cordwood.client.producer.settings import Serializer
from cordwood.client.schema_hooks import RecordSerializer

_BYTES = (bytes, bytearray, memoryview)


def serialize(content: Any, serializer: Serializer | None, what: str, topic: str) -> bytes | None:
    """`what` is "key" or "value". None is null (a tombstone as a value), without calling a serializer. Raises
    `SerializationFailed`."""
    if content is None:
        return None
    if serializer is not None:
        try:
            content = serializer(content)
        except Exception as error:
            raise SerializationFailed(f"the {what}_serializer failed for topic {topic}: {error}") from error
        if content is None or type(content) is bytes:
            return content
        if isinstance(content, _BYTES):
            return bytes(content)
        raise SerializationFailed(
            f"the {what}_serializer returned {type(content).__name__} for topic {topic}; expected bytes or None"
        )
    if type(content) is bytes:
        return content
    if isinstance(content, str):
        try:
            return content.encode()
        except UnicodeEncodeError as error:
            raise SerializationFailed(f"a {what} for topic {topic} is not valid text: {error}") from error
    if isinstance(content, _BYTES):
        return bytes(content)
    raise SerializationFailed(
        f"a {what} of type {type(content).__name__} for topic {topic}; without a {what}_serializer, expected bytes, "
        "str or None"
    )


def serialize_record(
    content: Any, serializer: Serializer | None, what: str, topic: str
) -> tuple[bytes | None, Headers]:
    """Like `serialize`, with the headers that a `RecordSerializer` adds."""
    given: object = serializer
    if content is None or not isinstance(given, RecordSerializer):
        return serialize(content, serializer, what, topic), ()
    try:
        data, headers = given.serialize(topic, content, is_key=what == "key")
    except Exception as error:
        raise SerializationFailed(f"the {what}_serializer failed for topic {topic}: {error}") from error
    return data, list(headers)


def checked_headers(headers: GivenHeaders, topic: str) -> Headers:
    """Raises `SerializationFailed` for anything but a sequence of (name, content)."""
    checked: list[tuple[str, bytes | None]] = []
    try:
        for name, content in headers.items() if isinstance(headers, Mapping) else headers:
            if not isinstance(name, str) or not (content is None or isinstance(content, _BYTES)):
                raise TypeError(f"{name!r} is {content!r}")
            name.encode()
            checked.append((name, None if content is None else bytes(content)))
    except (TypeError, ValueError) as error:
        raise SerializationFailed(
            f"a header of a record for topic {topic}: {error}; expected a dict, or pairs of str and (bytes or None)"
        ) from error
    return checked
