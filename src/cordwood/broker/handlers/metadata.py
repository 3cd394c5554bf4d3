"""Metadata: addresses of brokers, topics, and leaders of partitions.

A null list of topics means all (so does an empty one in version 0), an empty one none. A topic that is requested by
name, does not exist and may be created is created with the defaults, if `auto.create.topics.enable` is on, and the
response describes it (Kafka returns UNKNOWN_TOPIC_OR_PARTITION until it exists). A broker that failed a moment ago is
still named (`departures.py`), though as the leader of nothing. The response waits while it is undecided whether a
leader is dead (`lost_leaders.py`). Version 4 lets the client forbid creation; version 10 adds topic ids, version 12
requests by id; version 13 an error for the whole response (KIP-1102).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cordwood.broker.broker import Broker
from cordwood.broker.controller.topic_creation import create_missing
from cordwood.broker.topic_view import ALL_ON_TOPIC, INTERNAL_TOPICS, offline_replicas
from cordwood.metadata.answers.describe_cluster import ALL_ON_CLUSTER
from cordwood.metadata.controller.topics import check_topic_name
from cordwood.metadata.image import NO_LEADER, MetadataImage, PartitionRegistration, Topic
from cordwood.net.api import Call, Result, handles
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from cordwood.wire.primitives import Uuid

_NULL_MEANS_ALL_SINCE = 1
_UNAVAILABLE_LEADER_LISTED_SINCE = 6
_NAME_MAY_BE_NULL_SINCE = 12
_NO_ID: Uuid = bytes(16)


@handles(MetadataRequest)
def metadata(broker: Broker, request: MetadataRequest, call: Call) -> Result:
    missing = _to_create(broker, request, call.version)
    if missing:
        return _create_and_answer(broker, request, call, missing)
    found = _find_all(broker.image, request, call.version, {})
    if broker.lost_leaders.are_undecided(_leaders(found)):
        return _answer_when_decided(broker, request, call, found)
    return _response(broker, request, call, found)


async def _answer_when_decided(
    broker: Broker, request: MetadataRequest, call: Call, found: list[_Found]
) -> MetadataResponse:
    await broker.lost_leaders.until_decided(_leaders(found))
    return _response(broker, request, call, _find_all(broker.image, request, call.version, {}))


def _to_create(broker: Broker, request: MetadataRequest, version: int) -> list[str]:
    asked = request.topics
    if asked is None or not request.allow_auto_topic_creation or not broker.config.flag("auto.create.topics.enable"):
        return []
    if _bad_request(asked, version) is not None:
        return []
    names = [topic.name for topic in asked if topic.name is not None and topic.topic_id == _NO_ID]
    return [name for name in dict.fromkeys(names) if name not in broker.image.topics]


async def _create_and_answer(
    broker: Broker, request: MetadataRequest, call: Call, missing: list[str]
) -> MetadataResponse:
    errors = await create_missing(broker, missing)
    return _response(broker, request, call, _find_all(broker.image, request, call.version, errors))


# Look-up of topics


class _Found:
    """A requested topic: its description, or the error."""

    __slots__ = ("error", "name", "topic", "topic_id")

    def __init__(
        self, topic: Topic | None, error: ErrorCode = ErrorCode.NONE, name: str | None = None, topic_id: Uuid = _NO_ID
    ) -> None:
        self.topic = topic
        self.error = error
        self.name = name
        self.topic_id = topic_id


def _bad_request(asked: list[MetadataRequestTopic], version: int) -> list[_Found] | None:
    """Before version 12 topics are requested by name; an entry by id lacks the name."""
    if any(topic.name is None and version < _NAME_MAY_BE_NULL_SINCE for topic in asked) or any(
        topic.topic_id != _NO_ID and version < _NAME_MAY_BE_NULL_SINCE for topic in asked
    ):
        return [_Found(None, ErrorCode.INVALID_REQUEST, topic.name or "", topic.topic_id) for topic in asked]
    return None


def _find_all(
    image: MetadataImage, request: MetadataRequest, version: int, errors: dict[str, ErrorCode]
) -> list[_Found]:
    asked = request.topics
    if asked is None or (not asked and version < _NULL_MEANS_ALL_SINCE):
        return [_Found(topic) for topic in image.topics]
    bad = _bad_request(asked, version)
    if bad is not None:
        return bad
    found: dict[str | Uuid, _Found] = {}
    for topic in asked:
        if topic.topic_id != _NO_ID:
            found[topic.topic_id] = _find_by_id(image, topic.topic_id)
        elif topic.name is not None:
            found[topic.name] = _find_by_name(image, topic.name, errors)
    return list(found.values())


def _find_by_id(image: MetadataImage, topic_id: Uuid) -> _Found:
    topic = image.topics.by_id.get(topic_id)
    return _Found(topic) if topic is not None else _Found(None, ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)


def _find_by_name(image: MetadataImage, name: str, errors: dict[str, ErrorCode]) -> _Found:
    if name in errors:
        return _Found(None, errors[name], name)
    topic = image.topics.get(name)
    if topic is not None:
        return _Found(topic)
    try:
        check_topic_name(name)
    except Refusal as refusal:
        return _Found(None, refusal.error, name)
    return _Found(None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _leaders(found: list[_Found]) -> Iterator[int]:
    for each in found:
        if each.topic is not None:
            for partition in each.topic.partitions.values():
                yield partition.leader


# The response


def _response(broker: Broker, request: MetadataRequest, call: Call, topics: Iterable[_Found]) -> MetadataResponse:
    image = broker.image
    listener = call.connection.listener
    reachable = frozenset(broker.endpoints(listener))
    response = MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=node, host=end.host, port=end.port, rack=broker.rack(node))
            for node, end in broker.named_endpoints(listener).items()
        ],
        cluster_id=broker.cluster_id,
        # Any broker forwards requests for the controller, so name a reachable one.
        controller_id=broker.named_controller(listener),
        topics=[_topic(image, found, request, call, reachable) for found in topics],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_ON_CLUSTER
    return response


def _topic(
    image: MetadataImage, found: _Found, request: MetadataRequest, call: Call, reachable: frozenset[int]
) -> MetadataResponseTopic:
    topic = found.topic
    if topic is None:
        name = found.name if found.name is not None or call.version >= _NAME_MAY_BE_NULL_SINCE else ""
        return MetadataResponseTopic(error_code=found.error, name=name, topic_id=found.topic_id, partitions=[])
    answer = MetadataResponseTopic(
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _partition(image, index, state, call.version, reachable)
            for index, state in sorted(topic.partitions.items())
        ],
    )
    if request.include_topic_authorized_operations:
        answer.topic_authorized_operations = ALL_ON_TOPIC
    return answer


def _partition(
    image: MetadataImage, index: int, state: PartitionRegistration, version: int, reachable: frozenset[int]
) -> MetadataResponsePartition:
    error = ErrorCode.NONE
    if state.leader == NO_LEADER or state.leader not in image.brokers:
        error = ErrorCode.LEADER_NOT_AVAILABLE
    elif state.leader not in reachable:
        has_listener_error = version >= _UNAVAILABLE_LEADER_LISTED_SINCE
        error = ErrorCode.LISTENER_NOT_FOUND if has_listener_error else ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=NO_LEADER if error else state.leader,
        leader_epoch=state.leader_epoch,
        replica_nodes=list(state.replicas),
        isr_nodes=list(state.isr),
        offline_replicas=offline_replicas(image, state, reachable),
    )
