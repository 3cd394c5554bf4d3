"""The sticky assignor: balanced, and members keep their partitions although all of them revoke everything first.

Each member tells the leader its previous partitions in the assignor's user data: partitions by topic, and since version
1 the generation, so that of two claims to a partition the later one wins.
"""

from collections.abc import Mapping
from struct import Struct

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import (
    NO_GENERATION,
    Assignment,
    GroupTopics,
    RebalanceProtocol,
    Subscription,
)
from cordwood.client.consumer.assignors.order import in_string_order
from cordwood.client.consumer.assignors.sticky_plan import MemberData, plan
from cordwood.client.consumer.group_metadata import GroupMetadata

_INT16 = Struct(">h")
_INT32 = Struct(">i")


class StickyAssignor:
    name = "sticky"
    supported_protocols = (RebalanceProtocol.EAGER,)

    def __init__(self) -> None:
        self._had: Assignment | None = None
        self._generation_id = NO_GENERATION

    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return None if self._had is None else write_user_data(self._had, self._generation_id)

    def assign(self, topics: GroupTopics, subscriptions: Mapping[str, Subscription]) -> dict[str, Assignment]:
        given = plan(topics, subscriptions, _member_data).given
        return {member: Assignment(partitions) for member, partitions in given.items()}

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        self._had = assignment
        self._generation_id = metadata.generation_id


def write_user_data(had: Assignment, generation_id: int) -> bytes:
    """Version 1."""
    by_topic: dict[str, list[int]] = {}
    for partition in had.partitions:
        by_topic.setdefault(partition.topic, []).append(partition.partition)
    parts = [_INT32.pack(len(by_topic))]
    for topic in in_string_order(by_topic):
        name, partitions = topic.encode(), by_topic[topic]
        parts += [_INT16.pack(len(name)), name, _INT32.pack(len(partitions)), *map(_INT32.pack, partitions)]
    return b"".join([*parts, _INT32.pack(generation_id)])


def _member_data(subscription: Subscription) -> MemberData:
    if not subscription.user_data:
        return MemberData((), None)
    try:
        return _read_user_data(subscription.user_data)
    except (ValueError, EOFError):
        # Data in another client's own format is ignored.
        return MemberData((), NO_GENERATION)


def _read_user_data(data: bytes) -> MemberData:
    """Reads version 1, or version 0, which lacks the generation at the end."""
    reader = _Reader(data)
    partitions = []
    for _ in range(reader.count()):
        topic = reader.take(reader.int16()).decode()
        partitions += [TopicPartition(topic, reader.int32()) for _ in range(reader.count())]
    return MemberData(partitions, reader.int32() if reader.left >= _INT32.size else None)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left:
            raise EOFError
        self._at += size
        return self._data[self._at - size : self._at]

    def int16(self) -> int:
        number: int = _INT16.unpack(self.take(_INT16.size))[0]
        return number

    def int32(self) -> int:
        number: int = _INT32.unpack(self.take(_INT32.size))[0]
        return number

    def count(self) -> int:
        """Reads a count of items that take some bytes each, so that a count that is too large is detected."""
        count = self.int32()
        if not 0 <= count <= self.left:
            raise EOFError
        return count
