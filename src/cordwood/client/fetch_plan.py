"""Reading partitions from where one stands: what to ask next, and what an answer holds; sans-IO."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cordwood.client.cluster import Cluster, TopicPartition
from cordwood.client.consumer.aborted import Aborted
from cordwood.client.errors import BadAnswer, BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from cordwood.wire.records import (
    CorruptBatch,
    InvalidRecord,
    Record,
    batch_headers,
    check_crc,
    decode_batch,
)


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """Kafka's defaults for consumers."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Fetched:
    partition: TopicPartition
    records: Sequence[Record]
    next_offset: int
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Answer:
    fetched: Sequence[Fetched]
    errors: Mapping[TopicPartition, BrokerError]
    """Those partitions stay where they are."""


class FetchPlan:
    """Where we stand in each partition. With `ends`, a partition is done when it has been read up to its end."""

    def __init__(
        self,
        positions: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int] | None = None,
        *,
        limits: FetchLimits | None = None,
        read_committed: bool = False,
    ) -> None:
        self.positions = dict(positions)
        self.ends = dict(ends) if ends is not None else None
        self._limits = limits if limits is not None else FetchLimits()
        self._read_committed = read_committed
        # Who was asked for longest ago comes first, as a broker fills its answer from the first partition on.
        self._order = [partition for partition in self.positions if not self.is_done(partition)]

    @property
    def left(self) -> Sequence[TopicPartition]:
        """The partitions that are not done, in the order in which to ask for them."""
        return self._order

    def is_done(self, partition: TopicPartition) -> bool:
        return self.ends is not None and self.positions[partition] >= self.ends[partition]

    def add(self, partition: TopicPartition, offset: int) -> None:
        """One more to read, for who reads without ends."""
        assert self.ends is None
        self.positions[partition] = offset
        self._order.append(partition)

    def move(self, partition: TopicPartition, offset: int) -> None:
        self.positions[partition] = offset
        self._drop_done()

    def request(self, partitions: Iterable[TopicPartition], cluster: Cluster) -> FetchRequest:
        """One request to the leader of all of these, without a fetch session: it says all there is to say."""
        topics: dict[str, FetchTopic] = {}
        for partition in partitions:
            topic = topics.get(partition.topic)
            if topic is None:
                topic_id = cluster.topics[partition.topic].id
                topic = topics[partition.topic] = FetchTopic(topic=partition.topic, topic_id=topic_id)
            topic.partitions.append(
                FetchPartition(
                    partition=partition.partition,
                    current_leader_epoch=cluster.partition(partition).leader_epoch,
                    fetch_offset=self.positions[partition],
                    partition_max_bytes=self._limits.partition_max_bytes,
                )
            )
        return FetchRequest(
            max_wait_ms=self._limits.max_wait_ms,
            min_bytes=self._limits.min_bytes,
            max_bytes=self._limits.max_bytes,
            isolation_level=1 if self._read_committed else 0,
            topics=list(topics.values()),
        )

    def take(self, response: FetchResponse, cluster: Cluster) -> Answer:
        """Moves on past what the response holds. Raises a `BrokerError` that concerns all of it, or `BadAnswer`."""
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code)
        told = list(_partitions(response, cluster))
        nothing = all(not data.records for _, data in told)
        fetched = []
        errors = {}
        for partition, data in told:
            if partition not in self.positions:
                continue
            if data.error_code != ErrorCode.NONE:
                errors[partition] = BrokerError(data.error_code, subject=str(partition))
            elif (answer := self._advance(partition, data, nothing)) is not None:
                fetched.append(answer)
        asked = {partition for partition, _ in told}
        self._order = [partition for partition in self._order if partition not in asked] + [
            partition for partition in self._order if partition in asked
        ]
        self._drop_done()
        return Answer(fetched, errors)

    def _advance(self, partition: TopicPartition, data: PartitionData, nothing: bool) -> Fetched | None:
        position = self.positions[partition]
        readable_end = data.last_stable_offset if self._read_committed else data.high_watermark
        if not data.records:
            if nothing and self.ends is not None and position < self.ends[partition] <= readable_end:
                # Compaction took the last records: no limit of the answer's size hides any.
                self.positions[partition] = self.ends[partition]
            return None
        records, position = _read(partition, data, position, self._read_committed)
        if self.ends is not None and records and records[-1].offset >= self.ends[partition]:
            records = [record for record in records if record.offset < self.ends[partition]]
        self.positions[partition] = position
        return Fetched(partition, records, position, data.high_watermark)

    def _drop_done(self) -> None:
        self._order = [partition for partition in self._order if not self.is_done(partition)]


def _partitions(response: FetchResponse, cluster: Cluster) -> Iterator[tuple[TopicPartition, PartitionData]]:
    for topic in response.responses:
        name = topic.topic or cluster.topic_name(topic.topic_id)
        if name is not None:
            for data in topic.partitions:
                yield TopicPartition(name, data.partition_index), data


def _read(
    partition: TopicPartition, data: PartitionData, position: int, read_committed: bool
) -> tuple[list[Record], int]:
    """The records from `position` on, and where to go on. Batches come whole, so the first may begin earlier."""
    content = data.records
    assert isinstance(content, bytes | bytearray | memoryview)
    aborted = Aborted(data.aborted_transactions or ()) if read_committed else None
    records: list[Record] = []
    try:
        # The last batch may be cut where the limit was; it is not among these.
        for place, header in batch_headers(content):
            if header.next_offset <= position:
                continue
            check_crc(content, header, place)
            is_aborted = aborted is not None and aborted.covers(header, content, place)
            if not header.is_control and not is_aborted:
                found = decode_batch(content, place)
                records += found if header.base_offset >= position else [r for r in found if r.offset >= position]
            position = header.next_offset
    except (CorruptBatch, InvalidRecord) as error:
        raise BadAnswer(f"{partition} at offset {position}: {error}") from error
    return records, position
