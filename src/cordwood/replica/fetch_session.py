"""A follower's side of a fetch session (KIP-227): the leader keeps its partitions, and requests have only changes."""

from __future__ import annotations

from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ForgottenTopic
from cordwood.wire.primitives import Uuid

from .follower import FetchPosition

# By topic id and index, as a session names them.
Key = tuple[Uuid, int]

_MAX_EPOCH = 2**31 - 1


class FetchSession:
    """`positions` is the leader's state once the next request has arrived."""

    def __init__(self, partition_max_bytes: int) -> None:
        self.positions: dict[Key, FetchPosition] = {}
        self._partition_max_bytes = partition_max_bytes
        # 0 without a session.
        self._id = 0
        # The epoch of the next request: 0 lists all partitions and asks for a session.
        self._epoch = 0
        # The leader had no room for a session.
        self._is_refused = False
        # Wanted from another position, or not wanted any more, since the last request.
        self._changed: dict[Key, None] = {}
        self._forgotten: dict[Key, None] = {}

    @property
    def is_opening(self) -> bool:
        """The next request is to open a session. It should not wait for records: until it is answered nothing can
        supersede it."""
        return self._epoch == 0 and not self._is_refused

    @property
    def is_empty(self) -> bool:
        return not self.positions

    def want(self, key: Key, position: FetchPosition) -> None:
        if self.positions.get(key) != position:
            self.positions[key] = position
            self._changed[key] = None
            self._forgotten.pop(key, None)

    def forget(self, key: Key) -> None:
        if self.positions.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten[key] = None

    def fill(self, request: FetchRequest) -> None:
        """Completes the next request of the session."""
        request.session_id, request.session_epoch = self._id, self._epoch
        request.topics = self._topics()
        if self._epoch and self._forgotten:
            forgotten: dict[Uuid, list[int]] = {}
            for topic_id, index in self._forgotten:
                forgotten.setdefault(topic_id, []).append(index)
            request.forgotten_topics_data = [
                ForgottenTopic(topic_id=topic_id, partitions=sorted(indexes)) for topic_id, indexes in forgotten.items()
            ]
        self._changed.clear()
        self._forgotten.clear()
        if self._epoch:
            self._epoch = 1 if self._epoch == _MAX_EPOCH else self._epoch + 1

    def _topics(self) -> list[FetchTopic]:
        topics: dict[Uuid, FetchTopic] = {}
        for key in self._changed if self._epoch else self.positions:
            topic_id, index = key
            position = self.positions[key]
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=index,
                    current_leader_epoch=position.current_leader_epoch,
                    fetch_offset=position.fetch_offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=self._partition_max_bytes,
                )
            )
        return list(topics.values())

    def answered(self, response: FetchResponse) -> bool:
        """False if the leader does not know the session: the next request must list everything."""
        if response.error_code != ErrorCode.NONE:
            self.reset()
            return False
        if self._epoch == 0:
            self._id = response.session_id
            self._is_refused = response.session_id == 0
            self._epoch = 0 if self._is_refused else 1
        return True

    def reset(self) -> None:
        """Makes the next request list everything, and end the current session."""
        self._epoch = 0
        self._is_refused = False
