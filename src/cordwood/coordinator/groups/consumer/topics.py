"""A shard's view of topics, for all its consumer groups: subscribers and hashes.

A group stores a hash of its subscribed topics; if that differs from the current metadata, the group must be reassigned.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from cordwood.metadata.delta import MetadataDelta
from cordwood.metadata.image import MetadataImage, Topic
from cordwood.wire.xxh3 import xxh3_64

# The first byte of the hashed data, a version number.
_HASH_MAGIC = 0


class SubscribedTopics:
    def __init__(self) -> None:
        self._groups: dict[str, set[str]] = {}
        self._hashes: dict[str, int] = {}
        # Metadata version with the last new topic: regular expressions resolved earlier may match it.
        self.version_with_new_topics = -1

    def subscribe(self, topic: str, group_id: str) -> None:
        self._groups.setdefault(topic, set()).add(group_id)

    def unsubscribe(self, topic: str, group_id: str) -> None:
        groups = self._groups.get(topic)
        if groups is not None:
            groups.discard(group_id)
            if not groups:
                del self._groups[topic]

    def metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> set[str]:
        """Returns the groups that subscribe to a created, deleted or changed topic."""
        if delta.topics.created:
            self.version_with_new_topics = version_of(image)
        concerned: set[str] = set()
        changed = (change.before.name for change in delta.topics.changed.values())
        deleted = (topic.name for topic in delta.topics.deleted.values())
        for name in (*changed, *deleted):
            self._hashes.pop(name, None)
            concerned |= self._groups.get(name, set())
        return concerned

    def hash_of(self, topics: Iterable[str], image: MetadataImage) -> int:
        """Hashes the existing topics; signed, as stored."""
        found = [self._topic_hash(topic, image) for name in sorted(topics) if (topic := image.topics.get(name))]
        if not found:
            return 0
        return _signed(xxh3_64(struct.pack(f"<{len(found)}Q", *found)))

    def _topic_hash(self, topic: Topic, image: MetadataImage) -> int:
        found = self._hashes.get(topic.name)
        if found is None:
            found = self._hashes[topic.name] = topic_hash(topic, image)
        return found


def version_of(image: MetadataImage) -> int:
    """Returns Kafka's version number of an image: the offset of its last record."""
    return image.covers.offset - 1


def topic_hash(topic: Topic, image: MetadataImage) -> int:
    """Hashes a topic's id, name, partitions and the racks of their replicas."""
    most, least = struct.unpack(">QQ", topic.id)
    hashed = bytearray(struct.pack("<BQQ", _HASH_MAGIC, most, least))
    hashed += _text(topic.name) + struct.pack("<i", len(topic.partitions))
    racks = {broker.id: broker.rack for broker in image.brokers.values() if broker.rack is not None}
    for number in range(len(topic.partitions)):
        hashed += struct.pack("<i", number)
        if racks:
            for rack in sorted(racks[replica] for replica in topic.partitions[number].replicas if replica in racks):
                hashed += struct.pack("<i", _utf16_length(rack)) + _text(rack)
    return xxh3_64(hashed)


def _text(text: str) -> bytes:
    """Encodes UTF-16 units, preceded by their number."""
    return text.encode("utf-16-le", "surrogatepass") + struct.pack("<i", _utf16_length(text))


def _utf16_length(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _signed(number: int) -> int:
    return number - 2**64 if number >= 2**63 else number
