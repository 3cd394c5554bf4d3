"""FindCoordinator: the broker that coordinates a group, a transactional id or a share partition.

The first request creates the topic that holds the coordinator's state, and is answered when the topic exists. The
response waits while it is undecided whether a coordinator's broker is dead (`broker/lost_leaders.py`). Version 1
adds the kind of the key; version 4 allows several keys of a kind; version 6 adds share partitions, whose key is
`group:topic id:partition`.
"""

from __future__ import annotations

import re

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.topics import GROUP_TOPIC, SHARE_TOPIC, TRANSACTION_TOPIC
from cordwood.metadata.image import PartitionRegistration
from cordwood.net.api import Call, Result, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.hashing import partition_for_id
from cordwood.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

_TOPICS = {0: GROUP_TOPIC, 1: TRANSACTION_TOPIC, 2: SHARE_TOPIC}
_BATCHED_SINCE = 4
_SHARES_SINCE = 6
_SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}:\d{1,10}", re.DOTALL)


@handles(FindCoordinatorRequest)
def find_coordinator(broker: Broker, request: FindCoordinatorRequest, call: Call) -> Result:
    topic = _TOPICS.get(request.key_type)
    keys = request.coordinator_keys if call.version >= _BATCHED_SINCE else [request.key]
    asks = [key for key in keys if topic is not None and _is_key(topic, key, call.version)]
    if asks and topic is not None and broker.topic_id(topic) is None:
        return _found_after_creation(broker, topic, keys, call)
    leaders = {partition.leader for key in asks if (partition := _partition(broker, topic, key)) is not None}
    if broker.lost_leaders.are_undecided(leaders):
        return _found_when_decided(broker, topic, keys, call, leaders)
    return _response(broker, topic, keys, call)


async def _found_when_decided(
    broker: Broker, topic: str | None, keys: list[str], call: Call, leaders: set[int]
) -> FindCoordinatorResponse:
    await broker.lost_leaders.until_decided(leaders)
    return _response(broker, topic, keys, call)


async def _found_after_creation(broker: Broker, topic: str, keys: list[str], call: Call) -> FindCoordinatorResponse:
    # If the topic cannot be created, its error is returned for the keys.
    await broker.coordinators.create_topic(topic)
    return _response(broker, topic, keys, call)


def _response(broker: Broker, topic: str | None, keys: list[str], call: Call) -> FindCoordinatorResponse:
    found = [_find(broker, topic, key, call) for key in keys]
    if call.version >= _BATCHED_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        # As in Kafka.
        error_message=only.error_message if only.error_code else "NONE",
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _find(broker: Broker, topic: str | None, key: str, call: Call) -> Coordinator:
    if topic is None:
        return _refused(key, ErrorCode.INVALID_REQUEST, f"kinds of coordinators are {', '.join(map(str, _TOPICS))}")
    if not _is_key(topic, key, call.version):
        return _refused(key, ErrorCode.INVALID_REQUEST)
    partition = _partition(broker, topic, key)
    leader = None if partition is None else broker.image.brokers.get(partition.leader)
    endpoint = None if leader is None or leader.fenced else leader.endpoint(call.connection.listener)
    if leader is None or endpoint is None:
        return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Coordinator(key=key, node_id=leader.id, host=endpoint.host, port=endpoint.port, error_message="")


def _partition(broker: Broker, topic: str | None, key: str) -> PartitionRegistration | None:
    """The partition of the topic that holds the state of `key`."""
    if topic is None:
        return None
    return broker.image.topics.partition(topic, partition_for_id(key, broker.coordinators.partition_count(topic)))


def _is_key(topic: str, key: str, version: int) -> bool:
    return topic != SHARE_TOPIC or (version >= _SHARES_SINCE and _SHARE_KEY.fullmatch(key) is not None)


def _refused(key: str, error: ErrorCode, message: str = "") -> Coordinator:
    return Coordinator(key=key, node_id=-1, host="", port=-1, error_code=error, error_message=message)
