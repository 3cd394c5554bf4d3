"""What comes of a decision about a classic group, gathered while it is taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cordwood.coordinator.decision import Answer, CoordinatorRecord, Decision
from cordwood.coordinator.later import Later
from cordwood.log.refusal import Refusal

T = TypeVar("T")


class Effects:
    __slots__ = ("answers", "records")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.answers: list[Answer] = []

    def answer(self, later: Later[T], response: T) -> None:
        self.answers.append(Answer(later, response))

    def decision(self, response: T | Later[T], refused: Callable[[Refusal], None] | None = None) -> Decision[T]:
        return Decision(response, self.records, self.answers, refused=refused or self._answer_all_the_same)

    def _answer_all_the_same(self, _refusal: Refusal) -> None:
        """The log says less than happened, and that is safe: whoever loads it finds members who are gone and expire."""
        for answer in self.answers:
            answer.later.resolve(answer.response)
