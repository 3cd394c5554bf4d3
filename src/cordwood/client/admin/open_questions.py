"""Tracks requests about many keys: those that are answered, and those to retry."""

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from typing import Generic, TypeVar

from cordwood.client.errors import BrokerError, ClientError

K = TypeVar("K")
Q = TypeVar("Q")
A = TypeVar("A")


class OpenQuestions(Generic[K, Q, A]):
    """`left` has the unanswered keys; a final error is an answer."""

    def __init__(self, questions: Mapping[K, Q]) -> None:
        self.left = dict(questions)
        self._asked = list(questions)
        self._answers: dict[K, A | BrokerError] = {}

    @property
    def answers(self) -> dict[K, A | BrokerError]:
        """The answers, once `left` is empty."""
        return {key: self._answers[key] for key in self._asked}

    def settle(self, results: Mapping[K, A | BrokerError]) -> ClientError | None:
        """Records a result; keeps the first retriable error."""
        again: ClientError | None = None
        for key, answer in results.items():
            if isinstance(answer, BrokerError) and answer.retriable:
                again = again or answer
            else:
                self.answer(key, answer)
        return again

    def answer(self, key: K, answer: A | BrokerError) -> None:
        """Records a final answer."""
        self._answers[key] = answer
        del self.left[key]

    async def gather(
        self, rounds: Iterable[Awaitable[Mapping[K, A | BrokerError]]], failures: Iterable[ClientError | None] = ()
    ) -> None:
        """Settles the answers of each round. Raises one of the failures, preferably a final one."""
        told = list(failures)
        for results in await asyncio.gather(*rounds, return_exceptions=True):
            if isinstance(results, ClientError):
                told.append(results)
            elif isinstance(results, BaseException):
                raise results
            else:
                told.append(self.settle(results))
        for failed in sorted((failed for failed in told if failed is not None), key=lambda error: error.retriable):
            raise failed
