"""Keys and values of the application, to bytes."""

from typing import Any

from cordwood.client.errors import SerializationFailed
from cordwood.client.producer.settings import Serializer


def serialize(content: Any, serializer: Serializer | None, what: str, topic: str) -> bytes | None:
    """`what` is "key" or "value". Raises `SerializationFailed`."""
    if serializer is not None:
        try:
            content = serializer(content)
        except Exception as error:
            raise SerializationFailed(f"the {what}_serializer failed for topic {topic}: {error}") from error
        if content is None or isinstance(content, bytes):
            return content
        if isinstance(content, bytearray | memoryview):
            return bytes(content)
        raise SerializationFailed(
            f"the {what}_serializer returned {type(content).__name__} for topic {topic}; expected bytes or None"
        )
    if content is None or isinstance(content, bytes):
        return content
    if isinstance(content, str):
        return content.encode()
    if isinstance(content, bytearray | memoryview):
        return bytes(content)
    raise SerializationFailed(
        f"a {what} of type {type(content).__name__} for topic {topic}; without a {what}_serializer it may be bytes, "
        "str or None"
    )
