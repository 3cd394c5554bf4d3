"""DescribeProducers: the producers of a partition, with their last sequence and open transaction (KIP-664).

Followers answer as well as the leader, which shows a hanging transaction's state on each replica.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.metadata.controller.topics import check_topic_name
from cordwood.net.api import Call, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)


@handles(DescribeProducersRequest)
def describe_producers(broker: Broker, request: DescribeProducersRequest, call: Call) -> DescribeProducersResponse:
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_describe(broker, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _describe(broker: Broker, topic: str, index: int) -> PartitionResponse:
    try:
        check_topic_name(topic)
    except Refusal as refusal:
        return PartitionResponse(partition_index=index, error_code=refusal.error, error_message=str(refusal))
    try:
        log = broker.hosted(topic, index).log
    except Refusal as refusal:
        return PartitionResponse(partition_index=index, error_code=refusal.error)
    if log is None:
        return PartitionResponse(partition_index=index, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.txn_first_offset,
            )
            for producer in log.producers.by_id.values()
        ],
    )
