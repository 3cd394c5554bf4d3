"""How a handler asks a coordinator.

return ask(call, broker.groups, request.group_id, lambda state: heartbeat(state, request), refused)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cordwood.coordinator.coordinator import Coordinator
from cordwood.coordinator.decision import Decision
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.later import Later
from cordwood.coordinator.loading import LoadedState
from cordwood.log.refusal import Refusal
from cordwood.net.serving import Reply
from cordwood.wire.errors import ErrorCode
from cordwood.wire.schema import Response

from .registry import Call

S = TypeVar("S", bound=LoadedState)
R = TypeVar("R", bound=Response)


def ask(
    call: Call,
    coordinator: Coordinator[S],
    key: str,
    decision: Callable[[S], Decision[R]],
    refused: Callable[[ErrorCode, str], Response],
    error_of: Callable[[ErrorCode], ErrorCode] = coordinator_error,
) -> Response | Reply:
    """The response, or a reply for when there is one. `refused` makes a response of an error; `error_of` puts the
    errors of the shard's partition into the words of this API."""
    try:
        result = coordinator.shard(key).decide(decision)
    except Refusal as refusal:
        return refused(error_of(refusal.error), str(refusal))
    if not isinstance(result, Later):
        return result
    reply = Reply()

    def answer(outcome: R | Refusal) -> None:
        response: Response = refused(error_of(outcome.error), str(outcome)) if isinstance(outcome, Refusal) else outcome
        reply.answer(call.parts(response))

    result.then(answer)
    return reply
