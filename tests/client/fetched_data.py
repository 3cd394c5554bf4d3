"""Batches and answers as a broker would send them, for tests of readers."""

from collections.abc import Sequence
from typing import Any

from cordwood.client.cluster import Broker, Cluster, PartitionInfo, Topic, TopicPartition
from cordwood.runtime.network import Address
from cordwood.wire.compression import Codec
from cordwood.wire.control import end_txn_marker
from cordwood.wire.messages.fetch import AbortedTransaction, PartitionData
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch

TOPIC_ID = bytes(range(16))
P0, P1, P2 = (TopicPartition("t", number) for number in range(3))


def cluster(*leaders: int, epoch: int = 0, brokers: Sequence[int] = (1, 2)) -> Cluster:
    partitions = tuple(
        PartitionInfo(index, leader, epoch, (leader,), (leader,), ()) for index, leader in enumerate(leaders)
    )
    return Cluster(
        brokers={number: Broker(number, Address("h", number)) for number in brokers},
        topics={"t": Topic("t", TOPIC_ID, False, partitions)},
    )


def batch(*offsets: int, producer: int = -1, epoch: int = 0, last: int | None = None, **more: Any) -> bytes:
    """Each record's value is its offset. `last` is where the batch ends when compaction took its last records."""
    records = [Record(offset, 1000 + offset, None, b"%d" % offset) for offset in offsets]
    if producer >= 0:
        more |= {"producer_id": producer, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    return bytes(encode_batch(records, leader_epoch=epoch, last_offset=last, **more))


def marker(offset: int, producer: int, *, commit: bool) -> bytes:
    return bytes(end_txn_marker(offset, 0, producer, 0, commit, 0, 0))


def partition_data(
    records: bytes | None,
    *,
    partition: int = 0,
    end: int = 1000,
    error: int = 0,
    aborted: Sequence[tuple[int, int]] = (),
    preferred: int = -1,
) -> PartitionData:
    """`aborted` has producers and the first offsets of their transactions."""
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        aborted_transactions=[AbortedTransaction(producer_id=each, first_offset=first) for each, first in aborted],
        preferred_read_replica=preferred,
        records=records,
    )


CODECS = tuple(Codec)
