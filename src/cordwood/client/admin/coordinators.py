"""Requests about groups or transactional ids, each sent to its coordinator."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from enum import IntEnum
from typing import TypeVar

from cordwood.client.admin.open_questions import OpenQuestions
from cordwood.client.client import Client
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest

Q = TypeVar("Q")
A = TypeVar("A")

Ask = Callable[[int, BrokerConnection, Mapping[str, Q]], Awaitable[Mapping[str, A | BrokerError]]]

# The first version with several keys (Kafka 3.0).
_BATCHED = 4
# A group's description has all its members, and its offsets all their partitions: this bounds the responses.
_KEYS_PER_REQUEST = 100


class CoordinatorKind(IntEnum):
    """The key types of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


async def ask_coordinators(
    client: Client, kind: CoordinatorKind, questions: Mapping[str, Q], ask: Ask[Q, A]
) -> dict[str, A | BrokerError]:
    """Returns an answer or a final error for each key; retriable errors are retried, at another broker if necessary.

    `ask` sends some of the keys to a broker (its id, the connection) and returns an answer for each. Raises `GaveUp` on
    timeout.
    """
    keys = list(questions)
    answers: dict[str, A | BrokerError] = {}
    for start in range(0, len(keys), _KEYS_PER_REQUEST):
        some = keys[start : start + _KEYS_PER_REQUEST]
        answers |= await _ask_for_some(client, kind, {key: questions[key] for key in some}, ask)
    return answers


async def ask_coordinator(
    client: Client, kind: CoordinatorKind, key: str, ask: Callable[[BrokerConnection], Awaitable[A]]
) -> A:
    """Like `ask_coordinators`, for one key: `ask` raises errors, and is called again after retriable ones."""

    async def attempt() -> A:
        found = (await find_coordinators(client, kind, [key]))[key]
        if isinstance(found, BrokerError):
            raise found
        return await ask(await client.broker(found))

    return await client.retrying(attempt)


async def find_coordinators(
    client: Client, kind: CoordinatorKind, keys: Collection[str]
) -> dict[str, int | BrokerError]:
    """Returns the id of each key's broker, which the client knows. One try."""
    connection = await client.any_broker()
    found: dict[str, int | BrokerError] = {}
    if connection.versions.best(FindCoordinatorRequest) >= _BATCHED:
        response = await connection.ask(
            FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys)), at_least=_BATCHED
        )
        for told in response.coordinators:
            found[told.key] = _coordinator(told)
    else:
        for key in keys:
            one = await connection.ask(FindCoordinatorRequest(key=key, key_type=kind), at_least=1, at_most=_BATCHED - 1)
            told = Coordinator(key=key, node_id=one.node_id, error_code=one.error_code, error_message=one.error_message)
            found[key] = _coordinator(told)
    if any(isinstance(broker, int) and broker not in client.cluster.brokers for broker in found.values()):
        await client.refresh()
    return {key: _known(client, key, found.get(key)) for key in keys}


async def _ask_for_some(
    client: Client, kind: CoordinatorKind, questions: Mapping[str, Q], ask: Ask[Q, A]
) -> dict[str, A | BrokerError]:
    open_questions: OpenQuestions[str, Q, A] = OpenQuestions(questions)
    left = open_questions.left

    async def attempt() -> None:
        found = await find_coordinators(client, kind, left)
        lost = open_questions.settle({key: error for key, error in found.items() if isinstance(error, BrokerError)})
        rounds = [
            _ask_one(client, broker, {key: left[key] for key in left if found[key] == broker}, ask)
            for broker in sorted({broker for broker in found.values() if isinstance(broker, int)})
        ]
        await open_questions.gather(rounds, [lost])

    await client.retrying(attempt)
    return open_questions.answers


def _coordinator(told: Coordinator) -> int | BrokerError:
    if told.error_code != ErrorCode.NONE:
        return BrokerError(told.error_code, told.error_message, told.key)
    return told.node_id


def _known(client: Client, key: str, found: int | BrokerError | None) -> int | BrokerError:
    if isinstance(found, BrokerError):
        return found
    if found is None or found not in client.cluster.brokers:
        return BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, subject=key)
    return found


async def _ask_one(
    client: Client, broker: int, questions: Mapping[str, Q], ask: Ask[Q, A]
) -> Mapping[str, A | BrokerError]:
    return await ask(broker, await client.broker(broker), questions)
