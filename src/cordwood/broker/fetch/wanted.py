"""A fetcher's request for one partition."""

from __future__ import annotations

from cordwood.replica.partition import Partition
from cordwood.wire.messages.fetch import PartitionData
from cordwood.wire.primitives import ZERO_UUID, Uuid

# A topic's name, or its id from version 13 on, and the partition's number.
PartitionKey = tuple[str | Uuid, int]


class WantedPartition:
    """A fetcher's request for a partition, and in a session the last response sent for it."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "told_high_watermark",
        "told_start_offset",
        "topic",
        "topic_id",
        "watched",
    )

    def __init__(
        self,
        topic: str | None,
        topic_id: Uuid,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = -1,
        last_fetched_epoch: int = -1,
        log_start_offset: int = -1,
    ) -> None:
        # None while no topic of this id is known.
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        # The start of a follower's log.
        self.log_start_offset = log_start_offset
        self.told_high_watermark = -1
        self.told_start_offset = -1
        # The partition that wakes the session of a follower, if one does.
        self.watched: Partition | None = None

    @property
    def key(self) -> PartitionKey:
        if self.topic is None or self.topic_id != ZERO_UUID:
            return self.topic_id, self.index
        return self.topic, self.index

    def want(self, other: WantedPartition) -> None:
        """Applies a later request of the session."""
        if other.current_leader_epoch != self.current_leader_epoch:
            # A follower ignores responses of an earlier epoch.
            self.told_high_watermark = -1
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start_offset = other.log_start_offset

    def tell(self, answer: PartitionData) -> bool:
        """Returns whether the fetcher has to be sent this answer, and records it as sent."""
        is_news = (
            bool(answer.error_code)
            or self.told_high_watermark != answer.high_watermark
            or self.told_start_offset != answer.log_start_offset
            or (answer.records is not None and len(answer.records) > 0)
            or answer.diverging_epoch.epoch >= 0
            or answer.preferred_read_replica >= 0
        )
        self.told(answer)
        return is_news

    def told(self, answer: PartitionData) -> None:
        # After an error the partition is always sent again; also after a divergence, because a follower that truncates
        # ignores the watermark.
        is_unheard = answer.error_code or answer.diverging_epoch.epoch >= 0
        self.told_high_watermark = -1 if is_unheard else answer.high_watermark
        self.told_start_offset = answer.log_start_offset
