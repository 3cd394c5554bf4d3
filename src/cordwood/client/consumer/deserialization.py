"""Runs the application's deserializers on keys and values."""

from collections.abc import Callable
from typing import Any

from cordwood.client.consumer.settings import ConsumerSettings, Deserializer
from cordwood.client.schema_hooks import RecordDeserializer
from cordwood.wire.record import ConsumerRecord

_Read = Callable[[bytes, ConsumerRecord], Any]


class Deserialization:
    """Deserializers of a consumer with these settings. Raises their errors."""

    def __init__(self, settings: ConsumerSettings) -> None:
        self._read_key = _reading(settings.key_deserializer, is_key=True)
        self._read_value = _reading(settings.value_deserializer, is_key=False)
        self.is_needed = self._read_key is not None or self._read_value is not None

    def __call__(self, record: ConsumerRecord) -> ConsumerRecord:
        key, value = record.key, record.value
        if key is not None and self._read_key is not None:
            key = self._read_key(key, record)
        if value is not None and self._read_value is not None:
            value = self._read_value(value, record)
        return record._replace(key=key, value=value)


def _reading(deserializer: Deserializer | None, *, is_key: bool) -> _Read | None:
    if deserializer is None:
        return None
    given: object = deserializer
    if isinstance(given, RecordDeserializer):
        deserialize = given.deserialize
        return lambda contents, record: deserialize(contents, record.headers, is_key=is_key)
    return lambda contents, _record: deserializer(contents)
