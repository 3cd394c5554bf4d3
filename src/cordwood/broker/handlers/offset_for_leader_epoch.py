"""OffsetForLeaderEpoch: the end of a leader epoch in this log, from which a consumer or a follower learns whether its
data was truncated (KIP-101, KIP-320).

The response has the largest epoch not above the requested one, or -1 if there is none. Version 3 adds the requesting
replica, which makes no difference here.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.net.api import Call, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)


@handles(OffsetForLeaderEpochRequest)
def offset_for_leader_epoch(
    broker: Broker, request: OffsetForLeaderEpochRequest, call: Call
) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_end_offset(broker, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _end_offset(broker: Broker, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = broker.hosted(topic, asked.partition)
        log = partition.leader_log(asked.current_leader_epoch)
    except Refusal as refusal:
        return EpochEndOffset(partition=asked.partition, error_code=refusal.error)
    epoch, end_offset = partition.end_offset_for_epoch(log, asked.leader_epoch)
    return EpochEndOffset(partition=asked.partition, leader_epoch=epoch, end_offset=end_offset)
