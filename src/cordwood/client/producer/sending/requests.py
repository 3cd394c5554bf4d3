"""Produce requests and responses.

From version 13 on topics are identified by id (KIP-516), before by name. From version 10 on a broker that does not lead
a partition names the leader (KIP-951).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cordwood.client.cluster import Broker, Cluster, TopicPartition
from cordwood.client.producer.batch import ProducerBatch
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from cordwood.wire.primitives import ZERO_UUID

_TOPIC_IDS_FROM = 13


class Answer(NamedTuple):
    """The result of one batch."""

    code: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: Mapping[int, str | None] | None = None
    """Refused records by index in the batch, and the reasons."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """Current leaders as reported by a broker that no longer leads."""

    leaders: Mapping[TopicPartition, tuple[int, int]]
    """The leader and its epoch."""
    brokers: Sequence[Broker]


def produce_request(
    batches: Iterable[ProducerBatch], cluster: Cluster, settings: ProducerSettings, transactional_id: str | None
) -> tuple[ProduceRequest, int | None]:
    """Returns the request and the newest usable version: topics with unknown ids require an older one."""
    topics: dict[str, TopicProduceData] = {}
    has_ids = True
    transactional = transactional_id is not None
    for batch in batches:
        name = batch.partition.topic
        data = topics.get(name)
        if data is None:
            known = cluster.topics.get(name)
            topic_id = known.id if known is not None else ZERO_UUID
            has_ids = has_ids and topic_id != ZERO_UUID
            data = topics[name] = TopicProduceData(name=name, topic_id=topic_id)
        records = batch.encode(transactional=transactional)
        data.partition_data.append(PartitionProduceData(index=batch.partition.partition, records=records))
    request = ProduceRequest(
        transactional_id=transactional_id,
        acks=settings.acks,
        timeout_ms=settings.request_timeout_ms,
        topic_data=list(topics.values()),
    )
    return request, None if has_ids else _TOPIC_IDS_FROM - 1


def read_answers(request: ProduceRequest, response: ProduceResponse) -> dict[TopicPartition, Answer]:
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    answers = {}
    for topic in response.responses:
        # A response by id has no name, and one by name no id.
        name = topic.name or names.get(topic.topic_id)
        if name is None:
            continue
        for told in topic.partition_responses:
            answers[TopicPartition(name, told.index)] = _answer(told)
    return answers


def read_leadership(request: ProduceRequest, response: ProduceResponse) -> Leadership | None:
    names = {topic.topic_id: topic.name for topic in request.topic_data}
    leaders = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id)
        for told in topic.partition_responses:
            hint = told.current_leader
            if name is not None and told.error_code in _LEADS_NOT and hint.leader_id >= 0 and hint.leader_epoch >= 0:
                leaders[TopicPartition(name, told.index)] = (hint.leader_id, hint.leader_epoch)
    if not leaders:
        return None
    brokers = [Broker(node.node_id, Address(node.host, node.port), node.rack) for node in response.node_endpoints]
    return Leadership(leaders, brokers)


_LEADS_NOT = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def _answer(told: PartitionProduceResponse) -> Answer:
    if told.error_code == ErrorCode.NONE:
        return Answer(ErrorCode.NONE, told.base_offset, told.log_append_time_ms)
    refused = {error.batch_index: error.batch_index_error_message for error in told.record_errors}
    return Answer(
        ErrorCode.of(told.error_code),
        told.base_offset,
        told.log_append_time_ms,
        told.log_start_offset,
        told.error_message,
        refused or None,
    )
