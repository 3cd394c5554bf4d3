"""Results of calls that act on several things: one per thing.

try:
    await admin.create_topics([NewTopic("a"), NewTopic("b")])
except BrokerError as error:
    for name, outcome in error.outcomes.items():
        ...  # a CreatedTopic, or the BrokerError that says why not
"""

from collections.abc import Awaitable, Mapping
from typing import Any, TypeVar

from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode

K = TypeVar("K")
V = TypeVar("V")


def failure(code: int, message: str | None = None, subject: str | None = None) -> BrokerError | None:
    """Returns the error for a code; None for success."""
    return None if code == ErrorCode.NONE else BrokerError(code, message, subject)


def values(outcomes: Mapping[K, V | BrokerError]) -> dict[K, V]:
    """Returns the values of all outcomes. If any is an error, raises the first one with all outcomes attached."""
    found: dict[K, V] = {}
    failures: list[BrokerError] = []
    for key, outcome in outcomes.items():
        if isinstance(outcome, BrokerError):
            failures.append(outcome)
        else:
            found[key] = outcome
    if not failures:
        return found
    first, *others = failures
    first.outcomes = outcomes
    for other in others:
        first.add_note(f"also: {other}")
    raise first


async def settled(call: Awaitable[Mapping[K, V]]) -> dict[K, V | BrokerError]:
    """Returns all outcomes of a call, whether it raises or not."""
    try:
        return dict(await call)
    except BrokerError as error:
        if not error.outcomes:
            raise
        return dict(error.outcomes)


async def failures_of(call: Awaitable[object]) -> dict[Any, BrokerError]:
    """Returns the outcomes for which a call fails."""
    try:
        await call
    except BrokerError as error:
        if not error.outcomes:
            raise
        return {key: outcome for key, outcome in error.outcomes.items() if isinstance(outcome, BrokerError)}
    return {}
