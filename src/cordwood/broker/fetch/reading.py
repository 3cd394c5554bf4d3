"""Reads for a Fetch: ranges of files, never the records themselves."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.log.log import Log
from cordwood.log.storage.index import CorruptIndex
from cordwood.replica.leader import FollowerFetched
from cordwood.replica.partition import Partition
from cordwood.runtime.disk import DiskError, FileRange
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, PartitionData, SnapshotId
from cordwood.wire.primitives import ZERO_UUID
from cordwood.wire.record import CorruptBatch

from .read_replica import ReadReplicaSelector
from .sessions import Answers, Fetching
from .wanted import WantedPartition

CONSUMER_REPLICA_ID = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1
# Told values of a fetch outside a session.
_NOT_TOLD = -1
# The values of these fields in most answers. They are shared: creating them takes as long as the rest of an answer.
_NO_PARTING = EpochEndOffset()
_NO_LEADER = LeaderIdAndEpoch()
_NO_SNAPSHOT = SnapshotId()


class FetchRead:
    """The reads of one Fetch: `all` reads every partition within the limits, `available` returns what one has by
    now."""

    __slots__ = (
        "_broker",
        "_fetching",
        "_is_committed",
        "_leader_only",
        "_only_news",
        "_refused",
        "_replica_id",
        "_selector",
        "max_bytes",
    )

    def __init__(
        self,
        broker: Broker,
        fetching: Fetching,
        replica_id: int,
        isolation_level: int,
        max_bytes: int,
        *,
        leader_only: bool = True,
        selector: ReadReplicaSelector | None = None,
    ) -> None:
        """`leader_only`: a follower must not answer, since the fetcher does not support KIP-392."""
        self._fetching = fetching
        self._leader_only = leader_only
        self._selector = selector
        self.max_bytes = max_bytes
        self._only_news = fetching.only_news
        self._broker = broker
        self._replica_id = replica_id
        # Partitions for which a follower's fetch is not an acknowledgement.
        self._refused: dict[WantedPartition, Refusal] = {}
        # Brokers read everything at any isolation level.
        self._is_committed = isolation_level == READ_COMMITTED and replica_id == CONSUMER_REPLICA_ID

    @property
    def is_follower(self) -> bool:
        return self._replica_id >= 0

    def count_follower(self, broker_epoch: int) -> None:
        """A follower's fetch acknowledges everything below its offsets. That is counted before anything is read, so
        that the answer has the resulting high watermark."""
        broker, now_ms = self._broker, self._broker.clock.now_ms()
        registered_epoch = broker.registered_epoch(self._replica_id)
        if self._fetching.watch is not None:
            self._fetching.watch.fetched((broker_epoch, registered_epoch), now_ms)
        for wanted in self._fetching.partitions:
            try:
                partition, log = self._led(wanted)
                if not log.start_offset <= wanted.fetch_offset <= log.end_offset or (
                    wanted.last_fetched_epoch >= 0 and _parting(partition, log, wanted) is not None
                ):
                    continue
                partition.follower_fetched(
                    FollowerFetched(
                        self._replica_id, broker_epoch, registered_epoch, wanted.fetch_offset, wanted.log_start_offset
                    ),
                    now_ms,
                )
            except Refusal as refusal:
                self._refused[wanted] = refusal

    def idle(self) -> dict[Partition, WantedPartition] | None:
        """Returns the partitions to wait for if none of them has news. This is the common case for consumers at the end
        of the log, and costs a quarter of `all`."""
        waiting = {}
        for wanted in self._fetching.partitions:
            at_end = self._at_end(wanted)
            if at_end is None:
                return None
            partition, log = at_end
            if self._replica_id >= 0 and wanted.told_start_offset != log.start_offset:
                return None
            waiting[partition] = wanted
            self._watch(partition, log, wanted)
        return waiting

    def all(self) -> tuple[Answers, int, bool]:
        """The answers, how many bytes of records they have, and whether there is one that should not wait. In a session
        there are answers only for partitions that have something new to say.

        At least one batch comes whole, however large it is: the first that there is. Otherwise a consumer with small
        limits would never get past a large one.
        """
        answers: Answers = []
        refused: Answers = []
        total_bytes = 0
        remaining_bytes = self.max_bytes
        is_urgent = False
        for wanted in self._fetching.partitions:
            if self._only_news and self._has_no_news(wanted):
                continue
            limit = min(wanted.max_bytes, remaining_bytes)
            try:
                answer = self._read(wanted, limit, total_bytes == 0)
            except Refusal as refusal:
                is_urgent = True
                answer = error_answer(wanted.index, refusal.error)
                if not self._is_known(wanted):
                    # As in Kafka, unknown partitions come last.
                    refused.append((wanted, answer))
                    continue
                answer.aborted_transactions = None
            answers.append((wanted, answer))
            if answer.diverging_epoch is not _NO_PARTING or answer.preferred_read_replica >= 0:
                is_urgent = True
            if answer.records:
                total_bytes += len(answer.records)
                remaining_bytes = max(0, self.max_bytes - total_bytes)
            elif remaining_bytes < 0:
                remaining_bytes = 0
        return answers + refused, total_bytes, is_urgent

    def _has_no_news(self, wanted: WantedPartition) -> bool:
        """Told at a quarter of the cost of an answer."""
        at_end = self._at_end(wanted)
        if at_end is None:
            return False
        partition, log = at_end
        if wanted.told_high_watermark != log.high_watermark or wanted.told_start_offset != log.start_offset:
            return False
        self._watch(partition, log, wanted)
        return True

    def _watch(self, partition: Partition, log: Log, wanted: WantedPartition) -> None:
        """Lets a partition of a follower's session rest that has no news, until it wakes the session."""
        watch = self._fetching.watch
        if watch is None:
            return
        watch.watch(partition, wanted)
        leader = partition.leader
        if (
            wanted.told_high_watermark == log.high_watermark
            and wanted.told_start_offset == log.start_offset
            and leader is not None
            and self._replica_id in leader.isr
        ):
            watch.rest(wanted, self._replica_id)

    def _at_end(self, wanted: WantedPartition) -> tuple[Partition, Log] | None:
        """The partition and its log, if the fetcher is caught up; None otherwise, and also if the answer must have
        something else."""
        if self._selector is not None:
            return None
        try:
            partition, log = self._led(wanted)
            if wanted.fetch_offset != self._max_offset(log):
                return None
            if wanted.last_fetched_epoch >= 0 and _parting(partition, log, wanted) is not None:
                return None
        except Refusal:
            return None
        return partition, log

    def available(self, wanted: WantedPartition, enough_bytes: int) -> int:
        """Returns how many bytes there are to read, of which no more than `enough_bytes` need be counted; a Refusal if
        the partition has an error."""
        partition, log = self._led(wanted)
        if self._replica_id >= 0 and wanted.told_start_offset not in (_NOT_TOLD, log.start_offset):
            # A follower deletes the records that its leader has deleted, and DeleteRecords may wait for that.
            return self.max_bytes
        if self._is_held_up(partition):
            return 0
        if enough_bytes <= 1 and log.start_offset <= wanted.fetch_offset < self._max_offset(log):
            # The common case for consumers; answered without reading the log.
            return 1
        found = self._find(log, wanted, wanted.max_bytes, min_one_batch=True)
        if found is None:
            return 0
        if found.file is not log.active.file:
            # An older segment doesn't grow any more, so waiting for more bytes would be pointless.
            return self.max_bytes
        return len(found)

    def watched(self) -> dict[Partition, WantedPartition]:
        """The partitions to wait for. None of them has anything wrong with it."""
        watched = {self._partition(wanted): wanted for wanted in self._fetching.partitions}
        if self._fetching.watch is not None:
            for partition, wanted in watched.items():
                self._fetching.watch.watch(partition, wanted)
        return watched

    def _partition(self, wanted: WantedPartition) -> Partition:
        broker = self._broker
        topic = wanted.topic
        if topic is None:
            topic = wanted.topic = broker.topic_name(wanted.topic_id)
            if topic is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id")
        partition = broker.hosted(topic, wanted.index)
        if wanted.topic_id not in (partition.topic_id, ZERO_UUID):
            # The topic was deleted and recreated.
            raise Refusal(ErrorCode.INCONSISTENT_TOPIC_ID, f"{topic} has another id by now")
        return partition

    def _led(self, wanted: WantedPartition) -> tuple[Partition, Log]:
        if self._refused and wanted in self._refused:
            raise self._refused[wanted]
        partition = self._partition(wanted)
        log = partition.readable_log(wanted.current_leader_epoch, leader_only=self._leader_only)
        replica_id = self._replica_id
        if replica_id >= 0 and (replica_id == partition.broker_id or replica_id not in partition.state.replicas):
            # If the fetch has an epoch, the fetcher's view of the replicas may be newer than ours.
            raise Refusal(
                ErrorCode.UNKNOWN_LEADER_EPOCH
                if wanted.current_leader_epoch >= 0
                else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{replica_id} is not a replica of {partition}",
            )
        return partition, log

    def _is_held_up(self, partition: Partition) -> bool:
        """A follower out of sync, whose partition is throttled, gets nothing while the limit is exceeded."""
        leader = partition.leader
        return (
            self._replica_id >= 0
            and partition.is_leader_throttled
            and leader is not None
            and self._replica_id not in leader.isr
            and self._broker.leader_throttle.is_exceeded
        )

    def _is_known(self, wanted: WantedPartition) -> bool:
        """Returns whether the metadata has the partition."""
        topics = self._broker.image.topics
        return wanted.topic is not None and topics.partition(wanted.topic, wanted.index) is not None

    def _max_offset(self, log: Log) -> int:
        if self._is_committed:
            return log.last_stable_offset
        return log.high_watermark if self._replica_id == CONSUMER_REPLICA_ID else log.end_offset

    def _read(self, wanted: WantedPartition, limit: int, min_one_batch: bool) -> PartitionData:
        partition, log = self._led(wanted)
        answer = PartitionData(
            partition_index=wanted.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            diverging_epoch=_NO_PARTING,
            current_leader=_NO_LEADER,
            snapshot_id=_NO_SNAPSHOT,
            aborted_transactions=None,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0:
            parting = _parting(partition, log, wanted)
            if parting is not None:
                answer.diverging_epoch = parting
                return answer
        if self._is_committed:
            answer.aborted_transactions = []
        if self._selector is not None:
            preferred = self._selector.select(partition, wanted.fetch_offset)
            if preferred is not None:
                answer.preferred_read_replica = preferred
                return answer
        if self._is_held_up(partition):
            return answer
        found = self._find(log, wanted, limit, min_one_batch=min_one_batch)
        if found is not None:
            answer.records = found
            if self._replica_id >= 0 and partition.is_leader_throttled:
                self._broker.leader_throttle.record(len(found))
            if self._is_committed:
                answer.aborted_transactions = self._aborted(log, found, wanted.fetch_offset)
        return answer

    def _find(self, log: Log, wanted: WantedPartition, max_bytes: int, *, min_one_batch: bool) -> FileRange | None:
        max_offset = self._max_offset(log)
        if max_bytes < 0 and log.start_offset <= wanted.fetch_offset < max_offset:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"no more than {max_bytes} bytes are wanted")
        try:
            return log.read(wanted.fetch_offset, max_bytes, max_offset, min_one_batch=min_one_batch)
        except DiskError as error:
            self._broker.replicas.disk_failed(error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _aborted(self, log: Log, found: FileRange, fetch_offset: int) -> list[AbortedTransaction]:
        try:
            aborted = log.aborted_txns(found, fetch_offset)
        except DiskError as error:
            self._broker.replicas.disk_failed(error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return [AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset) for txn in aborted]


def _parting(partition: Partition, log: Log, wanted: WantedPartition) -> EpochEndOffset | None:
    """The point where the fetcher's log diverges from ours (KIP-595), which is sent instead of records."""
    epoch, end_offset = partition.end_offset_for_epoch(log, wanted.last_fetched_epoch)
    if end_offset < 0:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {wanted.last_fetched_epoch}")
    if wanted.fetch_offset < log.start_offset:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"{log} begins after {wanted.fetch_offset}")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return None
    return EpochEndOffset(epoch=epoch, end_offset=end_offset)


def count_read(broker: Broker, wanted: WantedPartition, answer: PartitionData) -> None:
    """Adds the bytes and records sent to a consumer to the topic's metrics."""
    partition = broker.partition(wanted.topic or "", wanted.index)
    found = answer.records
    if partition is None or partition.traffic is None or partition.log is None or not isinstance(found, FileRange):
        return
    partition.traffic.bytes_out += len(found)
    # Unchanged from `_read`: only read_committed consumers get aborted transactions.
    is_committed = answer.aborted_transactions is not None
    max_offset = answer.last_stable_offset if is_committed else answer.high_watermark
    try:
        next_offset = partition.log.next_offset_of(found, wanted.fetch_offset, max_offset)
    except (CorruptBatch, CorruptIndex, DiskError):
        # The reader gets the error; the metrics don't need it.
        return
    partition.traffic.messages_out += next_offset - wanted.fetch_offset


def error_answer(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=error, high_watermark=-1, records=b"")
