"""Waits for states of a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import KafkaException

from cordwood.client.errors import ClientError

_TIMEOUT_S = 90.0
_PAUSE_S = 0.1


def until(is_so: Callable[..., bool], *arguments: object, timeout_s: float = _TIMEOUT_S) -> None:
    """Returns when `is_so(*arguments)` says so. A cluster may reject the query during a change."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            if is_so(*arguments):
                return
        except (KafkaException, ClientError, TimeoutError):
            if time.monotonic() > deadline:
                raise
        assert time.monotonic() < deadline, "it didn't come to that in time"
        time.sleep(_PAUSE_S)
