"""Commits a consumer's offsets, and looks up its group's committed offsets.

Commits are sent one after the other, so that none overtakes an earlier one; queued ones without a waiting caller are
merged. Automatic commits (`enable_auto_commit`) cover everything returned to the application, which is done with that
when it asks for more.

    commits = Commits(client, settings, driver, consumed=positions.consumed)
    commits.is_member = True            # while subscribed; not while partitions are assigned by hand
    await commits.commit(offsets)
    commits.auto_commit()               # at the start of each poll
    for done in commits.take_completed():
        ...                             # within the application's calls: callbacks, interceptors
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.offsets.group_offsets import GroupOffsets, Membership, Results
from cordwood.client.consumer.offsets.requests import Offsets
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import (
    BadAnswer,
    BadSetting,
    BrokerError,
    ClientError,
    GaveUp,
    RetriableCommitFailed,
    TimedOut,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

# A topic that was just created may be unknown to some brokers.
_UNKNOWN_TOPIC_PATIENCE_S = 0.5

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], ClientError | None], Any]


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished commit: for its callback, and for interceptors if it succeeded."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    error: ClientError | None
    callback: CommitCallback | None


class Commits:
    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        group: Membership,
        *,
        consumed: Callable[[], Offsets],
    ) -> None:
        """`consumed` returns the application's position in each partition."""
        self._client = client
        self._settings = settings
        self._offsets = GroupOffsets(client, settings, group)
        self._consumed = consumed
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Commit] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._completed: list[Completed] = []
        self.changed = asyncio.Event()
        """Set when a commit is done. The waiting task clears it."""
        self._auto_commit_at_s = self._loop.time() + settings.auto_commit_interval_ms / 1000
        self._auto_commit: _Commit | None = None

    @property
    def is_member(self) -> bool:
        """True if the group assigns this consumer's partitions. Otherwise it only uses the group's offsets."""
        return self._offsets.is_member

    @is_member.setter
    def is_member(self, is_member: bool) -> None:
        self._offsets.is_member = is_member

    # ---- explicit commits

    async def commit(self, offsets: Offsets, timeout_s: float | None = None) -> None:
        """Retries up to `default_api_timeout_ms`.

        Raises `CommitFailed` if the group has removed this member, `RebalanceInProgress` during a rebalance,
        `GroupFenced` if another client has this static member's instance id, and `GaveUp` on timeout.
        """
        await self._finish(self._add(_checked(offsets), retries=True), timeout_s)

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """Tries once, after earlier commits. `take_completed` returns the result."""
        self._add(_checked(offsets), retries=False, callback=callback)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """None for partitions without a committed offset. Waits for pending transactions (KIP-447)."""
        if not partitions:
            return {}

        return await self._client.retrying(lambda: self._offsets.committed(partitions), timeout_s)

    # ---- automatic commits

    def auto_commit(self) -> None:
        """Called at the start of a poll, when the records of the last one are processed. Commits if that is due."""
        if not self._settings.enable_auto_commit or self._loop.time() < self._auto_commit_at_s:
            return
        if self._auto_commit is not None and not self._auto_commit.done.done():
            return
        self._auto_commit_at_s = self._loop.time() + self._settings.auto_commit_interval_ms / 1000
        if self._offsets.may_commit and (consumed := self._consumed()):
            self._auto_commit = self._add(consumed, retries=False, is_automatic=True)

    @property
    def auto_commit_in_s(self) -> float | None:
        """Seconds until `auto_commit` is due; None for never."""
        if not self._settings.enable_auto_commit:
            return None
        return max(0.0, self._auto_commit_at_s - self._loop.time())

    async def before_release(self, timeout_s: float) -> ClientError | None:
        """Finishes explicit commits before partitions are released (revoked, unsubscribed, closed), then commits
        automatically, if enabled.

        Returns the error of the automatic commit, to be logged, since no caller waits for it.
        """
        consumed = self._consumed() if self._settings.enable_auto_commit and self._offsets.may_commit else {}
        if not consumed:
            await self._drain(self._loop.time() + timeout_s)
            return None
        self._auto_commit_at_s = self._loop.time() + self._settings.auto_commit_interval_ms / 1000
        # A deleted topic would delay the group's other members.
        commit = self._add(consumed, retries=True, is_automatic=True, despite_unknown_topics=True)
        try:
            await self._finish(commit, timeout_s)
        except ClientError as error:
            _log.warning("Group %s: final offset commit failed: %s", self._settings.group_id, error)
            return error
        return None

    def take_completed(self) -> list[Completed]:
        """Returns finished commits in order."""
        completed, self._completed = self._completed, []
        return completed

    async def close(self, timeout_s: float) -> None:
        """Waits for commits in progress. Call `before_release` before, and `take_completed` after."""
        await self._drain(self._loop.time() + timeout_s)
        while self._waiting:
            self._complete(self._waiting.popleft(), TimedOut("the consumer was closed before this commit was sent"))
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.gather(self._worker, return_exceptions=True)

    # ---- one after the other

    def _add(
        self,
        offsets: Offsets,
        *,
        retries: bool,
        callback: CommitCallback | None = None,
        is_automatic: bool = False,
        despite_unknown_topics: bool = False,
    ) -> "_Commit":
        commit = _Commit(
            dict(offsets),
            self._offsets.sender,
            retries,
            self._loop.create_future(),
            callback,
            is_automatic,
            despite_unknown_topics,
        )
        self._waiting.append(commit)
        if self._worker is None:
            self._worker = self._loop.create_task(self._work())
        return commit

    async def _work(self) -> None:
        commits: list[_Commit] = []
        try:
            while self._waiting:
                commits = self._next()
                if commits[0].retries:
                    await self._commit_until_done(commits[0])
                else:
                    await self._commit_once(commits)
        except Exception as error:
            # Errors such as failed encoding go to the waiting caller.
            for commit in commits:
                if not commit.done.done():
                    commit.done.set_exception(error)
            raise
        finally:
            self._worker = None

    def _next(self) -> "list[_Commit]":
        commits = [self._waiting.popleft()]
        while self._waiting and self._waiting[0].may_go_with(commits[0]):
            commits.append(self._waiting.popleft())
        return commits

    async def _commit_until_done(self, commit: "_Commit") -> None:
        unknown_until_s = self._loop.time() + _UNKNOWN_TOPIC_PATIENCE_S
        for failures in count(1):
            # The caller may have given up.
            if commit.done.done():
                return
            try:
                results = await self._offsets.commit(commit.sender, commit.offsets)
            except ClientError as error:
                failure: ClientError | None = error
            else:
                failure = _failure(commit, results)
            if failure is None or not failure.retriable:
                self._complete(commit, failure)
                return
            commit.last_error = failure
            await self._client.pause_after(failures)
            if failure.code in _UNKNOWN_TOPIC:
                missing = await self._find_missing(commit)
                if missing is not None and self._loop.time() >= unknown_until_s:
                    self._complete(commit, missing)
                    return
            elif isinstance(failure, BrokerError) and failure.is_stale_metadata:
                await self._client.refresh()

    async def _find_missing(self, commit: "_Commit") -> ClientError | None:
        """The error for a partition that does not exist according to fresh metadata; None if all exist or it is
        unknown."""
        try:
            errors = await self._client.ask_for_topics(sorted({partition.topic for partition in commit.offsets}))
        except ClientError:
            return None
        topics = self._client.cluster.topics
        for partition in commit.offsets:
            name, number = partition
            is_unknown = name in errors and errors[name].code in _UNKNOWN_TOPIC
            if is_unknown or (name in topics and number >= len(topics[name].partitions)):
                error = BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, subject=str(partition))
                error.retriable = False
                return error
        return None

    async def _commit_once(self, commits: "list[_Commit]") -> None:
        offsets = {partition: offset for commit in commits for partition, offset in commit.offsets.items()}
        try:
            results = await self._offsets.commit(commits[0].sender, offsets)
            failures = [_failure(commit, results) for commit in commits]
        except ClientError as error:
            failures = [error] * len(commits)
        for commit, failure in zip(commits, failures, strict=True):
            if failure is not None and failure.retriable:
                retriable = RetriableCommitFailed(f"the offsets are not committed: {failure}")
                retriable.__cause__ = failure
                failure = retriable
            self._complete(commit, failure)

    def _complete(self, commit: "_Commit", error: ClientError | None) -> None:
        if commit.is_automatic and error is not None and not commit.retries:
            _log.warning("Group %s: auto-commit failed, retrying: %s", self._settings.group_id, error)
            if error.retriable:
                self._auto_commit_at_s = self._loop.time() + self._settings.retry_backoff_ms / 1000
        self._completed.append(Completed(commit.offsets, error, commit.callback))
        self.changed.set()
        if not commit.done.done():
            commit.done.set_result(error)

    async def _finish(self, commit: "_Commit", timeout_s: float | None) -> None:
        """Waits for a commit and raises its error. If the wait is cancelled, withdraws a commit that was not sent
        yet."""
        timeout_s = self._settings.default_api_timeout_ms / 1000 if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                error = await commit.done
        except TimeoutError as timeout:
            last = commit.last_error or TimedOut(f"the coordinator of group {self._settings.group_id} has not answered")
            raise GaveUp(last, timeout_s) from timeout
        if error is not None:
            raise error

    async def _drain(self, deadline_s: float) -> None:
        if self._worker is not None:
            await asyncio.wait([self._worker], timeout=max(0.0, deadline_s - self._loop.time()))


@dataclass(slots=True, eq=False)
class _Commit:
    offsets: dict[TopicPartition, OffsetAndMetadata]
    sender: GroupMetadata
    """The member's identity at the time of the call: a commit must not count for a later generation."""
    retries: bool
    done: "asyncio.Future[ClientError | None]"
    callback: CommitCallback | None = None
    is_automatic: bool = False
    despite_unknown_topics: bool = False
    last_error: ClientError | None = field(default=None)

    def may_go_with(self, other: "_Commit") -> bool:
        return not self.retries and not other.retries and self.sender == other.sender


def _checked(offsets: Offsets) -> Offsets:
    for partition, committed in offsets.items():
        if not isinstance(committed, OffsetAndMetadata) or not isinstance(committed.metadata, str):
            raise BadSetting(f"{partition}: expected an OffsetAndMetadata, not {committed!r}")
        if not 0 <= committed.offset < 1 << 63:
            raise BadSetting(f"{partition}: {committed.offset} is not an offset; expected 0 or more")
    return offsets


def _failure(commit: _Commit, results: Results) -> ClientError | None:
    """Returns the worst error of a partition."""
    worst: ClientError | None = None
    for partition in commit.offsets:
        if partition in results:
            error = results[partition]
        else:
            error = BadAnswer(f"the coordinator's response is missing {partition}")
        if error is None or (commit.despite_unknown_topics and error.code in _UNKNOWN_TOPIC):
            continue
        if worst is None or (worst.retriable and not error.retriable):
            worst = error
    return worst


_UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
