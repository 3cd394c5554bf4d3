"""Queries of handlers to a coordinator.

return ask(call, broker.groups, request.group_id, lambda state: heartbeat(state, request), refused)

A handler of a request about several groups consults the coordinators of all of them, and answers when all results are
there.

results = [consult(broker.groups, group, lambda state: describe(state, group), refused) for group in request.groups]
return answer_all(call, results, lambda described: DescribeGroupsResponse(groups=described))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from cordwood.coordinator.coordinator import Coordinator
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.loading import LoadedState
from cordwood.net.api import Call
from cordwood.net.serving import Reply
from cordwood.shard.decision import Decision
from cordwood.shard.promise import Promise, settled
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import EncodeError
from cordwood.wire.schema import Response

S = TypeVar("S", bound=LoadedState)
R = TypeVar("R", bound=Response)
T = TypeVar("T")


def ask(
    call: Call,
    coordinator: Coordinator[S],
    key: str,
    decision: Callable[[S], Decision[R]],
    refused: Callable[[ErrorCode, str], Response],
    error_of: Callable[[ErrorCode], ErrorCode] = coordinator_error,
    *,
    holds: bool = False,
) -> Response | Reply:
    """Returns the response, or a promise of it. `refused` converts an error to a response; `error_of` translates errors
    of the shard's partition for this API. With `holds`, later requests on the same connection wait."""
    try:
        result = coordinator.shard(key).decide(decision)
    except Refusal as refusal:
        return refused(error_of(refusal.error), str(refusal))
    if not isinstance(result, Promise):
        return result
    reply = Reply(holds=holds)

    def answer(outcome: R | Refusal) -> None:
        response: Response = refused(error_of(outcome.error), str(outcome)) if isinstance(outcome, Refusal) else outcome
        _answer(reply, call, response)

    result.then(answer)
    return reply


def _answer(reply: Reply, call: Call, response: Response) -> None:
    """An unencodable response breaks this connection only, not other responses of the same decision."""
    try:
        parts = call.parts(response)
    except EncodeError as error:
        reply.fail(error)
    else:
        reply.answer(parts)


def consult(
    coordinator: Coordinator[S],
    key: str,
    decision: Callable[[S], Decision[T]],
    refused: Callable[[ErrorCode, str], T],
    error_of: Callable[[ErrorCode], ErrorCode] = coordinator_error,
) -> T | Promise[T]:
    """Returns the result of one of several decisions in a response; `refused` converts a Refusal."""
    try:
        result = coordinator.shard(key).decide(decision)
    except Refusal as refusal:
        return refused(error_of(refusal.error), str(refusal))
    if not isinstance(result, Promise):
        return result
    told: Promise[T] = Promise()
    result.then(
        lambda outcome: told.resolve(
            refused(error_of(outcome.error), str(outcome)) if isinstance(outcome, Refusal) else outcome
        )
    )
    return told


def answer_all(
    call: Call, results: Sequence[T | Promise[T]], response_of: Callable[[list[T]], Response]
) -> Response | Reply:
    """Returns the response that combines all results in order, or a promise of it."""
    waiting = [result for result in results if isinstance(result, Promise) and not result.done]
    if not waiting:
        return response_of(_values(results))
    reply = Reply()

    def one_more(_outcome: T | Refusal) -> None:
        if all(promise.done for promise in waiting):
            _answer(reply, call, response_of(_values(results)))

    for promise in waiting:
        promise.then(one_more)
    return reply


def _values(results: Sequence[T | Promise[T]]) -> list[T]:
    return [result.result() if isinstance(result, Promise) else result for result in results]


async def ask_async(
    coordinator: Coordinator[S],
    key: str,
    decision: Callable[[S], Decision[R]],
    refused: Callable[[ErrorCode, str], R],
    error_of: Callable[[ErrorCode], ErrorCode] = coordinator_error,
) -> R:
    """Like `ask`, for handlers that are coroutines."""
    try:
        return await settled(coordinator.shard(key).decide(decision))
    except Refusal as refusal:
        return refused(error_of(refusal.error), str(refusal))
