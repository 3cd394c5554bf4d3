"""Tracks moves between members, so that no two partitions of a topic swap owners."""

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.order import first_partition

Path = tuple[str, str]


class Moves:
    def __init__(self) -> None:
        self._path: dict[TopicPartition, Path] = {}
        self._on_path: dict[tuple[str, Path], set[TopicPartition]] = {}

    def instead(self, partition: TopicPartition, source: str, to: str) -> TopicPartition:
        """Returns the partition to move: if one of the same topic came the other way, that one moves back instead."""
        if partition in self._path:
            source = self._path[partition][0]
        back = self._on_path.get((partition.topic, (to, source)))
        return first_partition(back) if back else partition

    def note(self, partition: TopicPartition, source: str, to: str) -> None:
        before = self._path.pop(partition, None)
        if before is not None:
            self._on_path[partition.topic, before].discard(partition)
            source = before[0]
        if source != to:
            self._path[partition] = (source, to)
            self._on_path.setdefault((partition.topic, (source, to)), set()).add(partition)
