"""Sends a request about many partitions to their leaders."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from cordwood.client.client import Client
from cordwood.client.cluster import Cluster, TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode

Q = TypeVar("Q")
A = TypeVar("A")

Ask = Callable[[BrokerConnection, Mapping[TopicPartition, Q]], Awaitable[Mapping[TopicPartition, A | BrokerError]]]


async def ask_leaders(client: Client, questions: Mapping[TopicPartition, Q], ask: Ask[Q, A]) -> dict[TopicPartition, A]:
    """Retries retriable failures, at another broker if necessary.

    The topics' metadata must have been fetched. Raises the first final error.
    """
    answers: dict[TopicPartition, A] = {}
    left = dict(questions)

    async def attempt() -> None:
        rounds = [
            ask_leader(client, leader, asked, ask)
            for leader, asked in questions_by_leader(client.cluster, left).items()
        ]
        failure: ClientError | None = None
        for results in await asyncio.gather(*rounds, return_exceptions=True):
            if isinstance(results, ClientError):
                failure = _worse(failure, results)
                continue
            if isinstance(results, BaseException):
                raise results
            for partition, answer in results.items():
                if isinstance(answer, BrokerError):
                    failure = _worse(failure, answer)
                else:
                    answers[partition] = answer
                    del left[partition]
        if failure is not None:
            raise failure

    await client.retrying(attempt)
    return {partition: answers[partition] for partition in questions}


def questions_by_leader(cluster: Cluster, questions: Mapping[TopicPartition, Q]) -> dict[int, dict[TopicPartition, Q]]:
    """Raises a retriable `BrokerError` for a partition without a leader."""
    grouped: dict[int, dict[TopicPartition, Q]] = {}
    for partition, question in questions.items():
        grouped.setdefault(cluster.leader(partition), {})[partition] = question
    return grouped


async def ask_leader(
    client: Client, leader: int, asked: Mapping[TopicPartition, Q], ask: Ask[Q, A]
) -> Mapping[TopicPartition, A | BrokerError]:
    """Returns an answer for each; a partition missing from the response may be retried."""
    told = await ask(await client.broker(leader), asked)
    return {
        partition: told[partition]
        if partition in told
        else BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=str(partition))
        for partition in asked
    }


def _worse(one: ClientError | None, other: ClientError) -> ClientError:
    return other if one is None or one.retriable else one
