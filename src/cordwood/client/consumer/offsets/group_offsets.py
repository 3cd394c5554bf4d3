"""Commits and fetches a group's offsets at its coordinator, as a member. One try each.

Commits name their member, so that a removed member cannot overwrite later commits of others.
"""

from collections.abc import Collection
from typing import Protocol

from cordwood.client.client import Client
from cordwood.client.cluster import TopicPartition
from cordwood.client.connection import BrokerConnection
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.consumer.offsets.requests import CommitRequest, CommittedRequest, Offsets, TopicIds
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadAnswer, BrokerError, ClientError, CommitFailed, RebalanceInProgress
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.errors import ErrorCode

Results = dict[TopicPartition, ClientError | None]
"""The outcome for each partition; None is success."""


class Membership(Protocol):
    """The group, and the driver of this consumer's membership."""

    @property
    def metadata(self) -> GroupMetadata: ...

    @property
    def assignment(self) -> frozenset[TopicPartition]: ...

    @property
    def is_rebalancing(self) -> bool: ...

    async def coordinator(self) -> BrokerConnection: ...

    def forget_coordinator(self) -> None: ...


class GroupOffsets:
    def __init__(self, client: Client, settings: ConsumerSettings, group: Membership) -> None:
        assert settings.group_id is not None
        self.is_member = False
        """True if the group assigns this consumer's partitions. If not, it only uses the group's offsets."""
        self._client = client
        self._has_epochs = settings.group_protocol == "consumer"
        self._group = group
        self._nobody = GroupMetadata(settings.group_id)

    @property
    def sender(self) -> GroupMetadata:
        """The identity for a commit now."""
        return self._group.metadata if self.is_member else self._nobody

    @property
    def may_commit(self) -> bool:
        return not self.is_member or self._group.metadata.generation_id > 0

    async def commit(self, sender: GroupMetadata, offsets: Offsets) -> Results:
        """Raises errors of the whole request. With KIP-848 the member's epoch may increase while its request is in
        flight."""
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
                return {
                    partition: None if error is None else self._told(sender, partition, error)
                    for partition, error in results.items()
                }

    async def committed(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndMetadata | None]:
        sender = self.sender
        connection = await self._group.coordinator()
        asked = CommittedRequest.of(
            sender,
            partitions,
            self._topic_ids(partitions),
            connection.versions,
            as_member=self._has_epochs and sender.generation_id > 0,
        )
        try:
            found = asked.read(await connection.ask(asked.request, at_least=asked.version, at_most=asked.version))
        except ClientError as error:
            self._note(error)
            if error.code == ErrorCode.STALE_MEMBER_EPOCH:
                # The next heartbeat brings the new epoch.
                error.retriable = self.sender.generation_id > 0
            raise
        for partition in partitions:
            if partition not in found:
                # Different from a partition without an offset, which is read from `auto_offset_reset` on.
                raise BadAnswer(f"the coordinator's response is missing {partition}")
        return {partition: found[partition] for partition in partitions}

    # ---- errors of the coordinator

    def _told(self, sender: GroupMetadata, partition: TopicPartition, error: BrokerError) -> ClientError:
        self._note(error)
        if error.code == ErrorCode.STALE_MEMBER_EPOCH:
            if self._newest(sender).generation_id > 0 and self._is_same_member(sender):
                # The next heartbeat brings the new epoch.
                error.retriable = True
                return error
            return _commit_failed(sender, error)
        if error.code in _NOT_A_MEMBER:
            # A classic group's next generation has begun at the coordinator before its members have their assignments.
            is_ahead = error.code == ErrorCode.ILLEGAL_GENERATION or self.sender != sender
            if self.is_member and ((self._group.is_rebalancing and is_ahead) or self._has_kept(sender, partition)):
                return RebalanceInProgress(subject=f"group {sender.group_id}")
            return _commit_failed(sender, error)
        if error.code == ErrorCode.OFFSET_METADATA_TOO_LARGE:
            # Kafka calls it retriable, but the same text will be too long again.
            error.retriable = False
        return error

    def _note(self, error: ClientError) -> None:
        if error.code in _NOT_COORDINATOR:
            self._group.forget_coordinator()

    # ---- the committing member

    def _check_membership(self, sender: GroupMetadata) -> None:
        if not self.is_member or sender.generation_id > 0:
            return
        # Its partitions are lost: the application is told at its next poll.
        if self._group.is_rebalancing and not self._group.assignment:
            raise RebalanceInProgress(subject=f"group {sender.group_id}")
        raise _commit_failed(sender, None)

    def _newest(self, sender: GroupMetadata) -> GroupMetadata:
        """A member keeps its partitions while its epoch increases (KIP-848); a new generation may have revoked them."""
        return self.sender if self._has_epochs and self._is_same_member(sender) else sender

    def _is_same_member(self, sender: GroupMetadata) -> bool:
        current = self.sender
        return current.member_id == sender.member_id and current.generation_id >= sender.generation_id

    def _has_kept(self, sender: GroupMetadata, partition: TopicPartition) -> bool:
        """True if it kept them through a finished rebalance, as usual with cooperative ones."""
        has_gone_on = self._is_same_member(sender) and self.sender.generation_id > sender.generation_id
        return has_gone_on and partition in self._group.assignment

    def _topic_ids(self, partitions: Collection[TopicPartition]) -> TopicIds:
        topics = self._client.cluster.topics
        return {name: topics[name].id for name in {partition.topic for partition in partitions} if name in topics}


def _commit_failed(sender: GroupMetadata, error: BrokerError | None) -> CommitFailed:
    reason = "it is no longer a member" if error is None else error.code.name
    failed = CommitFailed(
        f"group {sender.group_id} has continued without this consumer ({reason}): its partitions may belong to others. "
        "The time between two polls was longer than max_poll_interval_ms, or heartbeats did not arrive: raise "
        "max_poll_interval_ms, or take less at once with max_poll_records"
    )
    failed.__cause__ = error
    return failed


_NOT_COORDINATOR = frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
    }
)
_NOT_A_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION})
