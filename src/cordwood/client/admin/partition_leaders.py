"""Requests about partitions, each sent to its leader, with an outcome per partition."""

import asyncio
from collections.abc import Collection, Mapping
from typing import TypeVar

from cordwood.client.admin.open_questions import OpenQuestions
from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, ClientError
from cordwood.client.leaders import Ask
from cordwood.wire.errors import ErrorCode

Q = TypeVar("Q")
A = TypeVar("A")


async def ask_each_leader(
    client: Client, questions: Mapping[TopicPartition, Q], ask: Ask[Q, A]
) -> dict[TopicPartition, A | BrokerError]:
    """Returns an answer or a final error for each partition; retriable errors are retried.

    Fetches the metadata it needs. Raises `GaveUp` on timeout.
    """
    open_questions: OpenQuestions[TopicPartition, Q, A] = OpenQuestions(questions)
    missing = await _missing_topics(client, {partition.topic for partition in questions})
    for partition in questions:
        if partition.topic in missing:
            open_questions.answer(partition, missing[partition.topic])
        elif not 0 <= partition.partition < len(client.cluster.topics[partition.topic].partitions):
            unknown = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=str(partition))
            open_questions.answer(partition, unknown)

    async def ask_one(leader: int, asked: Mapping[TopicPartition, Q]) -> Mapping[TopicPartition, A | BrokerError]:
        return await ask(await client.broker(leader), asked)

    async def attempt() -> None:
        grouped: dict[int, dict[TopicPartition, Q]] = {}
        failures: list[ClientError] = []
        for partition, question in open_questions.left.items():
            try:
                grouped.setdefault(client.cluster.leader(partition), {})[partition] = question
            except BrokerError as error:
                failures.append(error)
        await open_questions.gather([ask_one(leader, asked) for leader, asked in grouped.items()], failures)

    await client.retrying(attempt)
    return open_questions.answers


async def _missing_topics(client: Client, names: Collection[str]) -> dict[str, BrokerError]:
    """Returns the topics that don't exist or are hidden from the client; fetches the metadata of the others."""
    try:
        await client.topics(sorted(names))
    except BrokerError as error:
        if error.subject is None:
            raise
    else:
        return {}

    async def look(name: str) -> BrokerError | None:
        try:
            await client.topics([name])
        except BrokerError as error:
            return error
        return None

    ordered = sorted(names)
    found = await asyncio.gather(*(look(name) for name in ordered))
    return {name: error for name, error in zip(ordered, found, strict=True) if error is not None}
