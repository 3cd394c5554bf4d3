"""What a Fetch finds in the logs: ranges of files, never the records themselves."""

from __future__ import annotations

from dataclasses import dataclass

from cordwood.log.log import Log
from cordwood.log.refusal import Refusal
from cordwood.replica.partition import Partition
from cordwood.runtime.disk import DiskError, FileRange
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import AbortedTransaction, EpochEndOffset, PartitionData
from cordwood.wire.primitives import ZERO_UUID

from .broker import Broker
from .fetch_sessions import Answers, WantedPartition

CONSUMER_REPLICA_ID = -1
READ_UNCOMMITTED = 0
READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class FetchRead:
    """How one Fetch reads: `all` reads every partition within the limits, `available` says what one has by now."""

    broker: Broker
    partitions: list[WantedPartition]
    replica_id: int
    isolation_level: int
    max_bytes: int

    def all(self) -> tuple[Answers, int, bool]:
        """The answers, how many bytes of records they have, and whether there is one that should not wait.

        At least one batch comes whole, however large it is: the first that there is. Otherwise a consumer with small
        limits would never get past a large one.
        """
        answers: Answers = []
        refused: Answers = []
        total_bytes = 0
        remaining_bytes = self.max_bytes
        is_urgent = False
        for wanted in self.partitions:
            limit = min(wanted.max_bytes, remaining_bytes)
            try:
                answer = self._read(wanted, limit, total_bytes == 0)
            except Refusal as refusal:
                is_urgent = True
                answer = error_answer(wanted.index, refusal.error)
                if not is_known(self.broker, wanted):
                    # As Kafka has it, those that nobody knows come last.
                    refused.append((wanted, answer))
                    continue
                answer.aborted_transactions = None
            else:
                if answer.diverging_epoch.epoch >= 0:
                    is_urgent = True
            answers.append((wanted, answer))
            if answer.records:
                total_bytes += len(answer.records)
            remaining_bytes = max(0, self.max_bytes - total_bytes)
        return answers + refused, total_bytes, is_urgent

    def available(self, wanted: WantedPartition, enough_bytes: int) -> int:
        """How many bytes there are to read, of which no more than `enough_bytes` need be counted; Refusal where it is
        time to say why there are none."""
        _, log = self._led(wanted)
        if enough_bytes <= 1 and log.start_offset <= wanted.fetch_offset < self._max_offset(log):
            # What most consumers ask for; it can be told without a look into the log.
            return 1
        found = self._find(log, wanted, wanted.max_bytes, min_one_batch=True)
        if found is None:
            return 0
        if found.file is not log.active.file:
            # What is on an older segment grows no more: to wait for more of it would be in vain.
            return self.max_bytes
        return len(found)

    def partition(self, wanted: WantedPartition) -> Partition:
        broker = self.broker
        topic = wanted.topic
        if topic is None:
            topic = wanted.topic = broker.topic_name(wanted.topic_id)
            if topic is None:
                raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic of this id")
        partition = broker.hosted(topic, wanted.index)
        if wanted.topic_id not in (partition.topic_id, ZERO_UUID):
            # The topic was deleted and made again.
            raise Refusal(ErrorCode.INCONSISTENT_TOPIC_ID, f"{topic} has another id by now")
        return partition

    def _led(self, wanted: WantedPartition) -> tuple[Partition, Log]:
        partition = self.partition(wanted)
        log = partition.leader_log(wanted.current_leader_epoch)
        if self.replica_id >= 0 and (
            self.replica_id == partition.broker_id or self.replica_id not in partition.state.replicas
        ):
            # With an epoch, the fetcher may be ahead of us in what it knows of the replicas.
            raise Refusal(
                ErrorCode.UNKNOWN_LEADER_EPOCH
                if wanted.current_leader_epoch >= 0
                else ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"{self.replica_id} is no replica of {partition}",
            )
        return partition, log

    def _max_offset(self, log: Log) -> int:
        if self.replica_id != CONSUMER_REPLICA_ID:
            return log.end_offset
        return log.last_stable_offset if self.isolation_level == READ_COMMITTED else log.high_watermark

    def _read(self, wanted: WantedPartition, limit: int, min_one_batch: bool) -> PartitionData:
        partition, log = self._led(wanted)
        answer = PartitionData(
            partition_index=wanted.index,
            high_watermark=log.high_watermark,
            last_stable_offset=log.last_stable_offset,
            log_start_offset=log.start_offset,
            aborted_transactions=None,
            records=b"",
        )
        if wanted.last_fetched_epoch >= 0 and _diverges(partition, log, wanted, answer):
            return answer
        is_committed = self.isolation_level == READ_COMMITTED and self.replica_id == CONSUMER_REPLICA_ID
        if is_committed:
            answer.aborted_transactions = []
        found = self._find(log, wanted, limit, min_one_batch=min_one_batch)
        if found is not None:
            answer.records = found
            if is_committed:
                answer.aborted_transactions = self._aborted(log, found, wanted.fetch_offset)
        return answer

    def _find(self, log: Log, wanted: WantedPartition, max_bytes: int, *, min_one_batch: bool) -> FileRange | None:
        max_offset = self._max_offset(log)
        if max_bytes < 0 and log.start_offset <= wanted.fetch_offset < max_offset:
            raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR, f"no more than {max_bytes} bytes are wanted")
        try:
            return log.read(wanted.fetch_offset, max_bytes, max_offset, min_one_batch=min_one_batch)
        except DiskError as error:
            self.broker.replicas.disk_failed(error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error

    def _aborted(self, log: Log, found: FileRange, fetch_offset: int) -> list[AbortedTransaction]:
        try:
            aborted = log.aborted_txns(found, fetch_offset)
        except DiskError as error:
            self.broker.replicas.disk_failed(error)
            raise Refusal(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        return [AbortedTransaction(producer_id=txn.producer_id, first_offset=txn.first_offset) for txn in aborted]


def _diverges(partition: Partition, log: Log, wanted: WantedPartition, answer: PartitionData) -> bool:
    """KIP-595: whether the fetcher's log has parted from ours, which it is told instead of being sent records."""
    epoch, end_offset = partition.end_offset_for_epoch(log, wanted.last_fetched_epoch)
    if end_offset < 0:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"nothing is known of epoch {wanted.last_fetched_epoch}")
    if wanted.fetch_offset < log.start_offset:
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, f"{log} begins after {wanted.fetch_offset}")
    if epoch == wanted.last_fetched_epoch and end_offset >= wanted.fetch_offset:
        return False
    answer.diverging_epoch = EpochEndOffset(epoch=epoch, end_offset=end_offset)
    return True


def is_known(broker: Broker, wanted: WantedPartition) -> bool:
    """Whether the metadata has the partition."""
    return wanted.topic is not None and broker.image.topics.partition(wanted.topic, wanted.index) is not None


def error_answer(index: int, error: ErrorCode) -> PartitionData:
    return PartitionData(partition_index=index, error_code=error, high_watermark=-1, records=b"")
