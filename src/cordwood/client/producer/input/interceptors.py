"""Interceptors of a producer: they observe, and may change, each record before it is sent, and observe its outcome.

An interceptor is an object with `on_send(record) -> record`, `on_acknowledgement(metadata, error)` or both. Exceptions
are logged and the record stays unchanged; they never reach the caller of `send`.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cordwood.client.errors import ClientError
from cordwood.client.producer.batch import GivenHeaders, RecordMetadata

_log = logging.getLogger(__name__)


class ProducerRecord(NamedTuple):
    """A record as sent by the application, before serialization."""

    topic: str
    value: Any = None
    key: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: GivenHeaders = ()


class Interceptors:
    """Interceptors in order; each gets the result of the one before it."""

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._on_send = _methods(interceptors, "on_send")
        self._on_acknowledgement = _methods(interceptors, "on_acknowledgement")
        self._close = _methods(interceptors, "close")

    def __bool__(self) -> bool:
        return bool(self._on_send or self._on_acknowledgement)

    @property
    def hear_acknowledgements(self) -> bool:
        return bool(self._on_acknowledgement)

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        for call in self._on_send:
            try:
                changed = call(record)
                if not isinstance(changed, ProducerRecord):
                    raise TypeError(f"on_send returned {type(changed).__name__}, not a ProducerRecord")
                record = changed
            except Exception:  # noqa: BLE001
                _log.exception("Interceptor failed in on_send for topic %s; the record is sent unchanged", record.topic)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: ClientError | None) -> None:
        """One of the arguments is None."""
        for call in self._on_acknowledgement:
            try:
                call(metadata, error)
            except Exception:  # noqa: BLE001
                _log.exception("Interceptor failed in on_acknowledgement")

    def close(self) -> None:
        for close in self._close:
            try:
                close()
            except Exception:  # noqa: BLE001
                _log.exception("Interceptor failed in close")


def _methods(interceptors: Sequence[Any], name: str) -> list[Callable[..., Any]]:
    return [method for each in interceptors if (method := getattr(each, name, None)) is not None]
