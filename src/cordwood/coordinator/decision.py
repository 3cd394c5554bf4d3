"""What a coordinator decides: the records that make it so, and what is answered once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from cordwood.log.refusal import Refusal
from cordwood.wire.schema import CoordinatorKey, CoordinatorValue

from .later import Later

T = TypeVar("T")


class CoordinatorRecord(NamedTuple):
    """`value` None takes back what was said under the key. `version` is the value's."""

    key: CoordinatorKey
    value: CoordinatorValue | None
    version: int = 0


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


class Answer(NamedTuple):
    """To someone who has waited."""

    later: Later[Any]
    response: Any


@dataclass(slots=True)
class Decision(Generic[T]):
    """The runtime goes about it in this order: `records` are written as one batch, all or none; they are replayed into
    the state; when they are committed, and with them everything that the decision can have seen, `answers` are given
    and then `response` is.

    A decision may change by itself what is not in the log (timers, who waits for what, classic members). It does so
    before its records are written, so where they are refused, `refused` is called to put that right.
    """

    response: T | Later[T]
    # Of the shard's own kind: CoordinatorRecord, but for the controller's.
    records: Sequence[Any] = ()
    answers: Sequence[Answer] = ()
    # The records are part of this producer's transaction.
    producer: ProducerIdAndEpoch | None = None
    refused: Callable[[Refusal], None] | None = None
