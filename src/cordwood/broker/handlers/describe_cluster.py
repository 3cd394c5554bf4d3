"""DescribeCluster: see `metadata.answers.describe_cluster`; a broker describes brokers.

Clients cannot reach the controller here, so a broker is reported as the controller: each of them forwards requests for
the controller.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.metadata.answers import describe_cluster as answers
from cordwood.metadata.answers.describe_cluster import EndpointType
from cordwood.net.api import Call, handles
from cordwood.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


@handles(DescribeClusterRequest)
def describe_cluster(broker: Broker, request: DescribeClusterRequest, call: Call) -> DescribeClusterResponse:
    refused = answers.mismatch(request, call, EndpointType.BROKER)
    if refused is not None:
        return refused
    nodes = _brokers(broker, call.listener, with_fenced=request.include_fenced_brokers)
    controller_id = broker.named_controller(call.listener)
    return answers.describe_cluster(request, EndpointType.BROKER, broker.cluster_id, nodes, controller_id)


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
