"""Builds the heartbeats of a KIP-848 member, which contain only changes."""

from collections.abc import Iterable

from cordwood.client.consumer.membership.events import Subscribed
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from cordwood.wire.primitives import Uuid

TopicIdPartition = tuple[Uuid, int]

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""Leaves temporarily: its partitions are reserved until its session ends (KIP-345)."""


class Heartbeats:
    """Remembers what was sent; call `forget` when it is unknown whether it arrived."""

    def __init__(self, settings: ConsumerSettings, member_id: str) -> None:
        assert settings.group_id is not None
        self._settings = settings
        self._group_id = settings.group_id
        self._member_id = member_id
        # Nothing sent yet.
        self._told_subscription: Subscribed | None = None
        self._told_owned: frozenset[TopicIdPartition] | None = None
        self._had_pattern = False

    def join(self, subscription: Subscribed) -> ConsumerGroupHeartbeatRequest:
        """Returns a complete heartbeat; a joining member owns nothing."""
        self.forget()
        return self.beat(JOIN_EPOCH, subscription, frozenset())

    def beat(
        self, epoch: int, subscription: Subscribed, owned: frozenset[TopicIdPartition]
    ) -> ConsumerGroupHeartbeatRequest:
        request = self._request(epoch)
        told = self._told_subscription
        if told is None:
            request.rebalance_timeout_ms = self._settings.max_poll_interval_ms
            request.rack_id = self._settings.client_rack or None
            request.server_assignor = self._settings.group_remote_assignor
        if told is None or subscription.topics != told.topics:
            request.subscribed_topic_names = sorted(subscription.topics)
        if told is None or subscription.pattern != told.pattern:
            # Version 0 has no patterns, so the field is set only if there is one to remove.
            request.subscribed_topic_regex = (
                "" if subscription.pattern is None and self._had_pattern else subscription.pattern
            )
            self._had_pattern = self._had_pattern or subscription.pattern is not None
        if owned != self._told_owned:
            request.topic_partitions = _by_topic(owned)
        self._told_subscription = subscription
        self._told_owned = owned
        return request

    def leave(self, *, stays_static: bool) -> ConsumerGroupHeartbeatRequest:
        self.forget()
        is_static = self._settings.group_instance_id is not None
        return self._request(STATIC_LEAVE_EPOCH if is_static and stays_static else LEAVE_EPOCH)

    def forget(self) -> None:
        """Makes the next heartbeat complete."""
        self._told_subscription = None
        self._told_owned = None

    def is_news(self, subscription: Subscribed) -> bool:
        return self._told_subscription is not None and subscription != self._told_subscription

    def is_acknowledged(self, owned: frozenset[TopicIdPartition]) -> bool:
        return owned == self._told_owned

    def _request(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self._settings.group_instance_id,
        )


def _by_topic(owned: Iterable[TopicIdPartition]) -> list[RequestTopicPartitions]:
    topics: dict[Uuid, RequestTopicPartitions] = {}
    for topic_id, partition in sorted(owned):
        topics.setdefault(topic_id, RequestTopicPartitions(topic_id=topic_id)).partitions.append(partition)
    return list(topics.values())
