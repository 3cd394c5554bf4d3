"""Requests to every broker of the cluster."""

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
    """Returns results by broker id. `request` may depend on the broker's versions; raises the first final error."""

    async def ask(broker_id: int, connection: BrokerConnection) -> ResponseT:
        response = await connection.ask(request(connection))
        if error(response) != ErrorCode.NONE:
            raise BrokerError(error(response), subject=f"broker {broker_id}")
        return response

    return await from_every_broker(client, ask)


async def from_every_broker(client: Client, ask: Callable[[int, BrokerConnection], Awaitable[A]]) -> dict[int, A]:
    """Like `ask_every_broker`; `ask` raises errors.

    If a broker is lost, others take over its partitions, possibly after they have answered. So all brokers that are
    alive then are asked again.
    """
    # The cluster may have changed since the client connected.
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
