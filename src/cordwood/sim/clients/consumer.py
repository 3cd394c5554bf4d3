"""A consumer of a workload: reads its partitions onwards, with a fetch session or without, and seeks now and then."""

from collections.abc import Iterator

from cordwood.runtime.network import NetworkError
from cordwood.sim.histories.history import Marker, Partition, Read, Seen
from cordwood.sim.machine import Machine
from cordwood.wire.batch_header import BatchHeader, batch_headers, check_crc
from cordwood.wire.control import ControlType, parse_control_type
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from cordwood.wire.record import CorruptBatch, InvalidRecord, Record
from cordwood.wire.records import decode_batch

from .client import Client, Over, Run, by_topic
from .offsets import EARLIEST, list_offset

_TOPIC_IDS_SINCE = 13
_ZSTD_SINCE = 10
_MAX_PAUSE_S = 0.2
_SEEK = 0.05
_NO_SESSION = 0.5
_LEAVE_SESSION = 0.05
_FINAL_EPOCH = -1


class Consumer(Client):
    def __init__(self, run: Run, name: str, partitions: list[Partition], *, is_committed: bool | None = None) -> None:
        """`is_committed`: whether it reads committed records only; None: at random."""
        super().__init__(run, name)
        self._is_committed = is_committed
        self._positions = dict.fromkeys(partitions, 0)
        self._session: _Session | None = None

    async def work(self) -> None:
        try:
            while True:
                try:
                    await self._poll()
                except NetworkError:
                    self._session = None
                await self.pause(_MAX_PAUSE_S)
                if self.chance(_SEEK):
                    partition = self.source.choice(list(self._positions))
                    self._positions[partition] = self.source.randrange(self._positions[partition] + 1)
        except Over:
            return

    async def _poll(self) -> None:
        if self._session is not None and self.chance(_LEAVE_SESSION):
            self._session = None
        session = self._session
        if session is None:
            version = self.source.randint(_ZSTD_SINCE, FetchRequest.stable_versions.high)
            session = _Session(version, 0, _FINAL_EPOCH if self.chance(_NO_SESSION) else 0)
            session.partitions = self.routes.led_together(list(self._positions))
            session.machine = self.routes.leader(session.partitions[0])
        wanted = {
            partition: self._positions[partition]
            for partition in session.partitions
            if session.epoch <= 0 or session.sent.get(partition) != self._positions[partition]
        }
        if session.epoch == _FINAL_EPOCH and self.chance(0.5):
            partition = self.source.choice(list(wanted))
            wanted = {partition: wanted[partition]}
        session.sent.update(wanted)
        request = self._request(session, wanted)
        begun_s = self.run.now_s
        response = await self.ask(request, session.version, session.machine)
        self._session = session.next(response)
        is_alone = session.epoch == _FINAL_EPOCH and len(wanted) == 1
        for partition, data in partitions_of(self.run, response):
            read = note_read(
                self,
                partition,
                session.sent[partition],
                begun_s,
                data,
                is_alone=is_alone,
                is_committed=bool(request.isolation_level),
            )
            self._positions[partition] = read.next_offset
            if read.error == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                self._session = None
            if read.error == ErrorCode.OFFSET_OUT_OF_RANGE:
                earliest = await list_offset(self, partition, EARLIEST)
                self._positions[partition] = earliest.offset if earliest is not None else 0

    def _request(self, session: "_Session", wanted: dict[Partition, int]) -> FetchRequest:
        source = self.source
        return FetchRequest(
            max_wait_ms=source.choice((0, 10, 500)),
            min_bytes=source.choice((0, 1, 1, 10_000)),
            max_bytes=source.choice((1, 1_000, 1 << 20)),
            isolation_level=source.randrange(2) if self._is_committed is None else int(self._is_committed),
            session_id=session.id,
            session_epoch=session.epoch,
            topics=fetch_topics(self.run, wanted, source.choice((1, 1_000, 1 << 20))),
        )


class _Session:
    def __init__(self, version: int, session_id: int, epoch: int) -> None:
        self.version = version
        self.id = session_id
        self.epoch = epoch
        # Our positions in the broker's session.
        self.sent: dict[Partition, int] = {}
        # In a cluster: the partitions that it reads, and their brokers.
        self.partitions: list[Partition] = []
        self.machine: Machine | None = None

    def next(self, response: FetchResponse) -> "_Session | None":
        if response.error_code or not response.session_id:
            return None
        following = _Session(self.version, response.session_id, self.epoch + 1)
        following.sent = self.sent
        following.partitions, following.machine = self.partitions, self.machine
        return following


def fetch_topics(run: Run, wanted: dict[Partition, int], max_bytes: int) -> list[FetchTopic]:
    return [
        FetchTopic(
            topic=topic,
            topic_id=run.topic_ids[topic],
            partitions=[
                FetchPartition(partition=index, fetch_offset=wanted[topic, index], partition_max_bytes=max_bytes)
                for index in indexes
            ],
        )
        for topic, indexes in by_topic(list(wanted))
    ]


def partitions_of(run: Run, response: FetchResponse) -> Iterator[tuple[Partition, PartitionData]]:
    names = {topic_id: name for name, topic_id in run.topic_ids.items()}

    def name_of(topic: FetchableTopicResponse) -> str:
        return topic.topic or names[topic.topic_id]

    for topic in response.responses:
        for data in topic.partitions:
            yield (name_of(topic), data.partition_index), data


def note_read(
    client: Client,
    partition: Partition,
    offset: int,
    begun_s: float,
    data: PartitionData,
    *,
    is_alone: bool,
    is_committed: bool = False,
) -> Read:
    run = client.run
    read = Read(
        client.name,
        partition,
        client.incarnation,
        begun_s,
        run.now_s,
        offset,
        data.error_code,
        data.high_watermark,
        data.log_start_offset,
        tuple(_decoded(run, partition, data)),
        _next_offset(data, offset),
        is_alone,
        is_committed,
        data.last_stable_offset,
        tuple((aborted.producer_id, aborted.first_offset) for aborted in data.aborted_transactions or ()),
    )
    run.history.reads.append(read)
    return read


def _next_offset(data: PartitionData, offset: int) -> int:
    if not isinstance(data.records, bytes | bytearray | memoryview):
        return offset
    return max([offset, *(header.next_offset for _, header in batch_headers(data.records))])


def _decoded(run: Run, partition: Partition, data: PartitionData) -> Iterator[Seen]:
    """Decodes the whole batches; the last one may be cut short."""
    records = data.records
    if not isinstance(records, bytes | bytearray | memoryview):
        return
    try:
        for position, header in batch_headers(records):
            check_crc(records, header, position)
            for record in decode_batch(records, position):
                yield seen_record(header, record)
    except (CorruptBatch, InvalidRecord) as error:
        run.history.broken.append(f"{partition[0]}-{partition[1]}, incarnation {run.machine.incarnation}: {error}")


def seen_record(header: BatchHeader, record: Record) -> Seen:
    producer = header.producer_id, header.producer_epoch, header.is_transactional
    if not header.is_control:
        return Seen(record.offset, record.timestamp, record.value or b"", *producer)
    marker = Marker.COMMIT if parse_control_type(record.key) is ControlType.COMMIT else Marker.ABORT
    value = f"{marker.value} of producer {header.producer_id}, epoch {header.producer_epoch}"
    return Seen(record.offset, record.timestamp, value.encode(), *producer, marker)
