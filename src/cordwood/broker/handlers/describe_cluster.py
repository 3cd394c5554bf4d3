"""DescribeCluster: the cluster's id, its controller and its nodes: brokers, or controllers where a controller is asked.

A client that cannot reach the controller is told a broker as the controller: each of them takes what is the
controller's.
Version 1 says which kind of node is meant, which has to be the kind that is asked; version 2 can ask for fenced
brokers.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.quorum_view import controller_endpoints, is_controller_listener
from cordwood.broker.topic_view import ALL_ON_CLUSTER
from cordwood.net.api import Call, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

_BROKERS, _CONTROLLERS = 1, 2
_KINDS = {_BROKERS: "BROKER", _CONTROLLERS: "CONTROLLER"}
_KINDS_SINCE = 1


@handles(DescribeClusterRequest)
def describe_cluster(broker: Broker, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    listener, wanted = call.connection.listener, request.endpoint_type
    asked = _CONTROLLERS if is_controller_listener(broker, listener) else _BROKERS
    if wanted not in _KINDS:
        return _refused(call, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {wanted}")
    if wanted != asked:
        return _refused(
            call,
            ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            f"The request was sent to an endpoint of type {_KINDS[asked]}, but we wanted an endpoint of type "
            f"{_KINDS[wanted]}",
        )
    response = DescribeClusterResponse(endpoint_type=asked, cluster_id=broker.cluster_id)
    if asked == _CONTROLLERS:
        response.brokers = _controllers(broker, listener)
        # The quorum of one.
        controller_id = broker.id
    else:
        response.brokers = _brokers(broker, listener, with_fenced=request.include_fenced_brokers)
        controller_id = broker.any_broker(listener)
    response.controller_id = controller_id if any(node.broker_id == controller_id for node in response.brokers) else -1
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_ON_CLUSTER
    return response


def _refused(call: Call, error: ErrorCode, message: str) -> DescribeClusterResponse:
    # Version 0 does not know of kinds, nor of their errors.
    code = error if call.version >= _KINDS_SINCE else ErrorCode.INVALID_REQUEST
    return DescribeClusterResponse(error_code=code, error_message=message, brokers=[])


def _brokers(broker: Broker, listener: str, *, with_fenced: bool) -> list[DescribeClusterBroker]:
    nodes = []
    for node in broker.image.brokers.values():
        endpoint = node.endpoint(listener)
        if endpoint is not None and (with_fenced or not node.fenced):
            nodes.append(
                DescribeClusterBroker(
                    broker_id=node.id, host=endpoint.host, port=endpoint.port, rack=node.rack, is_fenced=node.fenced
                )
            )
    return nodes


def _controllers(broker: Broker, listener: str) -> list[DescribeClusterBroker]:
    return [
        DescribeClusterBroker(broker_id=node_id, host=endpoint.host, port=endpoint.port)
        for node_id, endpoints in controller_endpoints(broker).items()
        for endpoint in endpoints
        if endpoint.listener == listener
    ]
