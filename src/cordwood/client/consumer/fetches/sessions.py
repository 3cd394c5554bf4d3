"""Fetch sessions (KIP-227): a broker remembers the fetched partitions, so that requests contain only changes.

There is one session per broker, with one request in flight. The first request is complete (epoch 0); later ones contain
new, changed and removed partitions, each with the next epoch. After any failure the session starts over.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cordwood.client.cluster import TopicPartition
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from cordwood.wire.primitives import ZERO_UUID, Uuid

_NO_SESSION = 0
_FIRST_EPOCH = 0
_LARGEST_EPOCH = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """A partition's entry in a fetch."""

    topic_id: Uuid
    """Zero if the broker that described the topic has no ids: then topic names are used throughout."""
    fetch_offset: int
    leader_epoch: int
    max_bytes: int


class FetchSession:
    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        # The broker's state once it has answered the last request.
        self._partitions: dict[TopicPartition, Wanted] = {}
        self._names: dict[Uuid, str] = {}
        self._by_id = True

    @property
    def is_by_id(self) -> bool:
        """True if the last request names topics by id (version 13 and later)."""
        return self._by_id

    def request(self, wanted: Mapping[TopicPartition, Wanted]) -> FetchRequest:
        """Returns the next request, with limits left for the caller to set. `accept` or `lost` must follow."""
        by_id = all(each.topic_id != ZERO_UUID for each in wanted.values())
        if by_id != self._by_id:
            # A session uses either names or ids: to switch, close it and open another with the same request.
            self._epoch = _FIRST_EPOCH
        self._by_id = by_id
        if self._epoch == _FIRST_EPOCH:
            said: Mapping[TopicPartition, Wanted] = wanted
            forgotten: dict[TopicPartition, Wanted] = {}
        else:
            before = self._partitions
            said = {partition: each for partition, each in wanted.items() if before.get(partition) != each}
            forgotten = {
                partition: each
                for partition, each in before.items()
                # A recreated topic has the same name but another id.
                if partition not in wanted or wanted[partition].topic_id != each.topic_id
            }
        self._partitions = dict(wanted)
        self._names = {each.topic_id: partition.topic for partition, each in wanted.items()}
        return FetchRequest(
            session_id=self._id,
            session_epoch=self._epoch,
            topics=_topics(said),
            forgotten_topics_data=_forgotten(forgotten),
        )

    def accept(self, response: FetchResponse) -> bool:
        """Returns whether the response is usable. If not, the next request is a full one."""
        if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._begin_again(close=False)
            return False
        if response.error_code != ErrorCode.NONE or not self._fits(response):
            self._begin_again(close=True)
            return False
        if response.session_id == _NO_SESSION:
            # The broker has no room for a session, or does not support them.
            self._begin_again(close=False)
        elif self._epoch == _FIRST_EPOCH:
            self._id = response.session_id
            self._epoch = 1
        else:
            self._epoch = 1 if self._epoch == _LARGEST_EPOCH else self._epoch + 1
        return True

    def lost(self) -> None:
        """No response came, so the broker's state is unknown."""
        self._begin_again(close=True)

    def answers(self, response: FetchResponse) -> Iterator[tuple[TopicPartition, PartitionData]]:
        for topic in response.responses:
            name = self._names.get(topic.topic_id) if self._by_id and not topic.topic else topic.topic
            if name is not None:
                for data in topic.partitions:
                    yield TopicPartition(name, data.partition_index), data

    def _fits(self, response: FetchResponse) -> bool:
        """A full response covers everything requested; later ones cover a part."""
        told = {partition for partition, _ in self.answers(response)}
        asked = self._partitions.keys()
        return told == asked if self._epoch == _FIRST_EPOCH else told <= asked

    def _begin_again(self, *, close: bool) -> None:
        """Starts a new session. With `close`, the next request names the old one, which the broker then drops."""
        if not close:
            self._id = _NO_SESSION
        self._epoch = _FIRST_EPOCH
        self._partitions = {}


def _topics(said: Mapping[TopicPartition, Wanted]) -> list[FetchTopic]:
    topics: dict[str, FetchTopic] = {}
    for partition, wanted in said.items():
        topic = topics.get(partition.topic)
        if topic is None:
            topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=wanted.topic_id)
        topic.partitions.append(
            FetchPartition(
                partition=partition.partition,
                current_leader_epoch=wanted.leader_epoch,
                fetch_offset=wanted.fetch_offset,
                partition_max_bytes=wanted.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(forgotten: Mapping[TopicPartition, Wanted]) -> list[ForgottenTopic]:
    topics: dict[tuple[str, Uuid], ForgottenTopic] = {}
    for partition, wanted in forgotten.items():
        key = (partition.topic, wanted.topic_id)
        topic = topics.get(key)
        if topic is None:
            topic = topics[key] = ForgottenTopic(topic=partition.topic, topic_id=wanted.topic_id)
        topic.partitions.append(partition.partition)
    return list(topics.values())
