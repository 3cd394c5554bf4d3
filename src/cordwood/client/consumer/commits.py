"""The offsets that a consumer commits, and those that its group has committed.

Commits are done one after the other, so that a later one is never overtaken by an earlier one; commits that wait for
their turn and for nobody go out together. What is committed without being asked (`enable_auto_commit`) is what the
application has been given: it comes back for more when it is through with that.

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
from typing import Any, Protocol

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.consumer.membership.events import GroupMetadata
from cordwood.client.consumer.offset_requests import CommitRequest, CommittedRequest, Offsets, TopicIds
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import (
    BadSetting,
    BrokerError,
    ClientError,
    CommitFailed,
    GaveUp,
    RebalanceInProgress,
    RetriableCommitFailed,
    TimedOut,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata], ClientError | None], Any]


class Group(Protocol):
    """What commits have to know of the group and of the member that this consumer is: its driver."""

    @property
    def metadata(self) -> GroupMetadata: ...

    @property
    def assignment(self) -> frozenset[TopicPartition]: ...

    @property
    def is_rebalancing(self) -> bool: ...

    async def coordinator(self) -> BrokerConnection: ...

    def forget_coordinator(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Completed:
    """A commit that is through: for the callback that was given with it, and for interceptors where it succeeded."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    error: ClientError | None
    callback: CommitCallback | None


class Commits:
    def __init__(
        self,
        client: Client,
        settings: ConsumerSettings,
        group: Group,
        *,
        consumed: Callable[[], Offsets],
    ) -> None:
        """`consumed` tells how far the application has been given the records of each partition that it reads."""
        assert settings.group_id is not None
        self.is_member = False
        """Whether the group hands out what this consumer reads. If not, it commits in the group's name only."""
        self._client = client
        self._settings = settings
        self._group = group
        self._consumed = consumed
        self._nobody = GroupMetadata(settings.group_id)
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Commit] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._completed: list[Completed] = []
        self._auto_commit_at_s = self._loop.time() + settings.auto_commit_interval_ms / 1000
        self._auto_commit: _Commit | None = None

    # ---- what the application asks for

    async def commit(self, offsets: Offsets, timeout_s: float | None = None) -> None:
        """Retries within the time (`default_api_timeout_ms`).

        Raises `CommitFailed` when the group has gone on without this member, `RebalanceInProgress` while it is at it,
        `GroupFenced` when another has taken this static member's place, and `GaveUp` when the time is over.
        """
        await self._finish(self._add(_checked(offsets), retries=True), timeout_s)

    def commit_async(self, offsets: Offsets, callback: CommitCallback | None = None) -> None:
        """Tried once, after those asked for before. `take_completed` tells what became of it."""
        self._add(_checked(offsets), retries=False, callback=callback)

    async def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """None where the group has committed nothing. Waits for transactions that are committing (KIP-447)."""
        if not partitions:
            return {}

        async def attempt() -> dict[TopicPartition, OffsetAndMetadata | None]:
            sender = self._sender()
            is_member = self._settings.group_protocol == "consumer" and sender.generation_id > 0
            connection = await self._group.coordinator()
            asked = CommittedRequest.of(
                sender, partitions, self._topic_ids(partitions), connection.versions, as_member=is_member
            )
            try:
                found = asked.read(await connection.ask(asked.request, at_least=asked.version, at_most=asked.version))
            except ClientError as error:
                self._note(error)
                if error.code == ErrorCode.STALE_MEMBER_EPOCH:
                    # The next heartbeat brings the epoch that the coordinator knows already.
                    error.retriable = self._sender().generation_id > 0
                raise
            return {partition: found.get(partition) for partition in partitions}

        return await self._client.retrying(attempt, timeout_s)

    # ---- what goes on by itself

    def auto_commit(self) -> None:
        """At the start of the application's poll: what the last one gave is done now. Does something when it is due."""
        if not self._settings.enable_auto_commit or self._loop.time() < self._auto_commit_at_s:
            return
        if self._auto_commit is not None and not self._auto_commit.done.done():
            return
        self._auto_commit_at_s = self._loop.time() + self._settings.auto_commit_interval_ms / 1000
        if self._is_in_group:
            self._auto_commit = self._add(self._consumed(), retries=False, is_automatic=True)

    @property
    def auto_commit_in_s(self) -> float | None:
        """When `auto_commit` has something to do; None for never."""
        if not self._settings.enable_auto_commit:
            return None
        return max(0.0, self._auto_commit_at_s - self._loop.time())

    async def before_release(self, timeout_s: float) -> ClientError | None:
        """Before partitions go to others (revoked, unsubscribed, closed): what was asked for is done first, then what
        the application was given is committed, if that goes by itself.

        The error, if the latter did not succeed: nobody asked for it, so it is for the log.
        """
        deadline_s = self._loop.time() + timeout_s
        if not self._settings.enable_auto_commit or not self._is_in_group:
            await self._drain(deadline_s)
            return None
        self._auto_commit_at_s = self._loop.time() + self._settings.auto_commit_interval_ms / 1000
        # A topic that was deleted would keep the others of the group waiting.
        commit = self._add(self._consumed(), retries=True, is_automatic=True, despite_unknown_topics=True)
        try:
            await self._finish(commit, timeout_s)
        except ClientError as error:
            _log.warning("what was read of group %s is not committed: %s", self._settings.group_id, error)
            return error
        return None

    def take_completed(self) -> list[Completed]:
        """In the order in which they were asked for."""
        completed, self._completed = self._completed, []
        return completed

    async def close(self, timeout_s: float) -> None:
        """Waits for commits that are under way. `before_release` comes first, and `take_completed` after."""
        await self._drain(self._loop.time() + timeout_s)
        while self._waiting:
            self._complete(self._waiting.popleft(), TimedOut("the consumer was closed before its turn came"))
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
            self._sender(),
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
            # What cannot be encoded, say: whoever waits for it is to see it.
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
        for failures in count(1):
            # Who waited for it may have given up.
            if commit.done.done():
                return
            try:
                results = await self._try(commit.sender, commit.offsets)
            except ClientError as error:
                failure: ClientError | None = error
            else:
                failure = self._failure(commit, results)
            if failure is None or not failure.retriable:
                self._complete(commit, failure)
                return
            commit.last_error = failure
            await self._client.pause_after(failures)
            if isinstance(failure, BrokerError) and failure.is_stale_metadata:
                await self._client.refresh()

    async def _commit_once(self, commits: "list[_Commit]") -> None:
        offsets = {partition: offset for commit in commits for partition, offset in commit.offsets.items()}
        try:
            results = await self._try(commits[0].sender, offsets)
            failures = [self._failure(commit, results) for commit in commits]
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
            _log.warning("what was read of group %s is not committed now: %s", self._settings.group_id, error)
            if error.retriable:
                self._auto_commit_at_s = self._loop.time() + self._settings.retry_backoff_ms / 1000
        self._completed.append(Completed(commit.offsets, error, commit.callback))
        if not commit.done.done():
            commit.done.set_result(error)

    async def _finish(self, commit: "_Commit", timeout_s: float | None) -> None:
        """Waits for it, and raises its error. Who gives up waiting takes it back if it has not been sent."""
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

    # ---- one try

    async def _try(self, sender: GroupMetadata, offsets: Offsets) -> dict[TopicPartition, BrokerError | None]:
        """Raises what concerns all of them. With KIP-848 a member's epoch may grow while its request is under way."""
        if not offsets:
            return {}
        while True:
            self._check_membership(sender)
            current = self._newest(sender)
            connection = await self._group.coordinator()
            request = CommitRequest.of(current, offsets, self._topic_ids(offsets), connection.versions)
            try:
                response = await connection.ask(request.request, at_least=request.version, at_most=request.version)
            except ClientError as error:
                self._note(error)
                raise
            results = request.read(response)
            codes = {error.code for error in results.values() if error is not None}
            if ErrorCode.STALE_MEMBER_EPOCH not in codes or self._newest(sender) == current:
                return results

    def _failure(self, commit: "_Commit", results: dict[TopicPartition, BrokerError | None]) -> ClientError | None:
        """The worst that happened to one of its partitions."""
        worst: ClientError | None = None
        for partition in commit.offsets:
            error = results.get(partition)
            if error is None or (commit.despite_unknown_topics and error.code in _UNKNOWN_TOPIC):
                continue
            self._note(error)
            told = self._told(commit.sender, error)
            if worst is None or (worst.retriable and not told.retriable):
                worst = told
        return worst

    def _told(self, sender: GroupMetadata, error: BrokerError) -> ClientError:
        """What a coordinator's refusal means for the application."""
        if error.code == ErrorCode.STALE_MEMBER_EPOCH:
            if self._newest(sender).generation_id > 0 and self._is_same_member(sender):
                # The next heartbeat brings the epoch that the coordinator knows already.
                error.retriable = True
                return error
            return _commit_failed(sender, error)
        if error.code in _NOT_A_MEMBER:
            if self.is_member and self._group.is_rebalancing and self._sender() != sender:
                return RebalanceInProgress(subject=f"group {sender.group_id}")
            return _commit_failed(sender, error)
        if error.code == ErrorCode.OFFSET_METADATA_TOO_LARGE:
            # Kafka calls it retriable. The same text will be too long again.
            error.retriable = False
        return error

    def _check_membership(self, sender: GroupMetadata) -> None:
        if not self.is_member or sender.generation_id > 0:
            return
        # What it still has, it has lost: the application will hear of it when it polls.
        if self._group.is_rebalancing and not self._group.assignment:
            raise RebalanceInProgress(subject=f"group {sender.group_id}")
        raise _commit_failed(sender, None)

    # ---- who commits

    @property
    def _is_in_group(self) -> bool:
        return not self.is_member or self._group.metadata.generation_id > 0

    def _sender(self) -> GroupMetadata:
        return self._group.metadata if self.is_member else self._nobody

    def _newest(self, sender: GroupMetadata) -> GroupMetadata:
        """A member keeps its partitions while its epoch grows (KIP-848); a new generation may have taken them."""
        if self._settings.group_protocol == "consumer" and self._is_same_member(sender):
            return self._sender()
        return sender

    def _is_same_member(self, sender: GroupMetadata) -> bool:
        current = self._sender()
        return current.member_id == sender.member_id and current.generation_id >= sender.generation_id

    def _note(self, error: ClientError) -> None:
        if error.code in _NOT_COORDINATOR:
            self._group.forget_coordinator()

    def _topic_ids(self, partitions: Collection[TopicPartition]) -> TopicIds:
        topics = self._client.cluster.topics
        return {name: topics[name].id for name in {partition.topic for partition in partitions} if name in topics}


@dataclass(slots=True, eq=False)
class _Commit:
    offsets: dict[TopicPartition, OffsetAndMetadata]
    sender: GroupMetadata
    """As of when it was asked for: what this member commits must not count for a later generation."""
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
            raise BadSetting(f"{partition}: an OffsetAndMetadata is committed, not {committed!r}")
        if not 0 <= committed.offset < 1 << 63:
            raise BadSetting(f"{partition}: {committed.offset} is no offset; 0 is the lowest")
    return offsets


def _commit_failed(sender: GroupMetadata, error: BrokerError | None) -> CommitFailed:
    reason = "it is not a member now" if error is None else error.code.name
    failed = CommitFailed(
        f"group {sender.group_id} has gone on without this consumer ({reason}): its partitions may belong to others. "
        "The time between two polls was longer than max_poll_interval_ms, or heartbeats did not arrive: raise "
        "max_poll_interval_ms, or take less at once with max_poll_records"
    )
    failed.__cause__ = error
    return failed


_UNKNOWN_TOPIC = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
_NOT_COORDINATOR = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
