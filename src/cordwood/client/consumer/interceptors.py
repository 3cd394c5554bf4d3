"""Interceptors of a consumer: they observe, and may change, records before the application gets them, and observe
commits.

An interceptor is an object with `on_consume(records) -> records`, `on_commit(offsets)` or both. Exceptions are logged
and the records stay unchanged; they never reach the application.
"""

import logging
from collections.abc import Sequence
from typing import Any

from cordwood.client.cluster import TopicPartition
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.record import ConsumerRecord

_log = logging.getLogger(__name__)

Records = dict[TopicPartition, list[ConsumerRecord]]


class Interceptors:
    """Interceptors in order; each gets the result of the one before it."""

    def __init__(self, interceptors: Sequence[Any]) -> None:
        self._on_consume = [call for each in interceptors if (call := getattr(each, "on_consume", None)) is not None]
        self._on_commit = [call for each in interceptors if (call := getattr(each, "on_commit", None)) is not None]
        self._closes = [close for each in interceptors if (close := getattr(each, "close", None)) is not None]

    @property
    def see_records(self) -> bool:
        return bool(self._on_consume)

    @property
    def hear_commits(self) -> bool:
        return bool(self._on_commit)

    def on_consume(self, records: Records) -> Records:
        for call in self._on_consume:
            try:
                changed = call(records)
                if not isinstance(changed, dict):
                    raise TypeError(f"on_consume returned {type(changed).__name__}, not a dict of lists of records")
                records = changed
            except Exception:  # noqa: BLE001  # an application's own function may raise anything
                _log.exception("Interceptor failed in on_consume; the records are returned unchanged")
        return records

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        for call in self._on_commit:
            try:
                call(offsets)
            except Exception:  # noqa: BLE001  # an application's own function may raise anything
                _log.exception("Interceptor failed in on_commit")

    def close(self) -> None:
        for close in self._closes:
            try:
                close()
            except Exception:  # noqa: BLE001  # an application's own function may raise anything
                _log.exception("Interceptor failed in close")
