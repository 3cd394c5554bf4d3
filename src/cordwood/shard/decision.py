"""The outcome of a decision: the records to append, and the responses to send once they are committed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from .promise import Promise
from .refusal import Refusal

T = TypeVar("T")


class ProducerIdAndEpoch(NamedTuple):
    producer_id: int
    producer_epoch: int


class Answer(NamedTuple):
    """An answer to a request that has waited."""

    promise: Promise[Any]
    response: Any


@dataclass(slots=True)
class Decision(Generic[T]):
    """The runtime proceeds in this order: `records` are written as one batch, all or none; they are replayed into
    the state; when they and everything that the decision can have seen are committed, `answers` are delivered,
    `effects` go to the shard's performer, and then `response` is delivered. Records that are not committed have no
    effects: the shard now belongs to another broker, which finds the remaining work in its log. A decision may directly
    change state that is not in the log (timers, pending requests, classic members). It does so before its records are
    written, so where they are refused, `refused` is called to put that right.
    """

    response: T | Promise[T]
    # Records of the shard's type: CoordinatorRecord, or the controller's MetadataRecord.
    records: Sequence[Any] = ()
    answers: Sequence[Answer] = ()
    # Values of the shard's own kind, such as WriteMarkers: work outside of the shard that the commit allows.
    effects: Sequence[Any] = ()
    # The records are part of this producer's transaction.
    producer: ProducerIdAndEpoch | None = None
    refused: Callable[[Refusal], None] | None = None
