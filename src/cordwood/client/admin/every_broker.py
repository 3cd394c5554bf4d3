"""Questions that every broker of the cluster is asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cordwood.client.client import Client
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.schema import Request, ResponseT

A = TypeVar("A")


async def ask_every_broker(
    client: Client, request: Callable[[BrokerConnection], Request[ResponseT]], error: Callable[[ResponseT], int]
) -> dict[int, ResponseT]:
    """By the broker's id. `request` may look at what the broker can read; raises the first error that will not pass."""

    async def ask(broker_id: int, connection: BrokerConnection) -> ResponseT:
        response = await connection.ask(request(connection))
        if error(response) != ErrorCode.NONE:
            raise BrokerError(error(response), subject=f"broker {broker_id}")
        return response

    return await from_every_broker(client, ask)


async def from_every_broker(client: Client, ask: Callable[[int, BrokerConnection], Awaitable[A]]) -> dict[int, A]:
    """As `ask_every_broker`: `ask` raises what is wrong.

    A broker that is lost meanwhile leaves what it led to others, which may have answered before they had it. So all of
    those that are there by then are asked again.
    """
    # A cluster that changed since we connected is asked as it is now.
    await client.refresh()

    async def ask_one(broker_id: int) -> A:
        return await ask(broker_id, await client.broker(broker_id))

    async def attempt() -> dict[int, A]:
        brokers = sorted(client.cluster.brokers)
        answers: dict[int, A] = {}
        failure: ClientError | None = None
        found = await asyncio.gather(*(ask_one(broker) for broker in brokers), return_exceptions=True)
        for broker, answer in zip(brokers, found, strict=True):
            if isinstance(answer, ClientError):
                failure = answer if failure is None or failure.retriable else failure
            elif isinstance(answer, BaseException):
                raise answer
            else:
                answers[broker] = answer
        if failure is not None:
            raise failure
        return answers

    return await client.retrying(attempt)
