"""A record of a coordinator's log: a key and its value."""

from __future__ import annotations

from typing import NamedTuple

from cordwood.wire.schema import CoordinatorKey, CoordinatorValue


class CoordinatorRecord(NamedTuple):
    """A `value` of None is a tombstone. `version` is the value's."""

    key: CoordinatorKey
    value: CoordinatorValue | None
    version: int = 0
