"""Effects of a decision about a classic group, collected while it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.shard.decision import Answer, Decision
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.sync_group import SyncGroupResponse

from .member import ClassicMember, refused_join

T = TypeVar("T")


class Effects:
    __slots__ = ("_refused", "answers", "records")

    def __init__(self, refused: Callable[[Refusal], None] | None = None) -> None:
        """`refused` undoes the decision's changes if its records cannot be written; without it the responses are sent
        anyway."""
        self.records: list[CoordinatorRecord] = []
        self.answers: list[Answer] = []
        self._refused = refused

    def answer(self, promise: Promise[T], response: T) -> None:
        self.answers.append(Answer(promise, response))

    def refuse(self, member: ClassicMember, error: ErrorCode, member_id: str = "") -> None:
        """Cancels the member's pending request."""
        if member.awaiting_join is not None:
            self.answer(member.awaiting_join, refused_join(error, member.join_version, member_id))
            member.awaiting_join = None
        if member.awaiting_sync is not None:
            self.answer(member.awaiting_sync, SyncGroupResponse(error_code=error))
            member.awaiting_sync = None

    def decision(self, response: T | Promise[T], refused: Callable[[Refusal], None] | None = None) -> Decision[T]:
        refused = self._refused or refused or self._answer_all_the_same
        return Decision(response, self.records, self.answers, refused=refused)

    def _answer_all_the_same(self, _refusal: Refusal) -> None:
        """The log then lacks a change, which is safe: the next coordinator loads dead members, and they expire."""
        for answer in self.answers:
            answer.promise.resolve(answer.response)
