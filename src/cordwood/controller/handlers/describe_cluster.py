"""DescribeCluster: see `metadata.answers.describe_cluster`; a controller describes controllers."""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.controller.endpoints import controller_endpoints
from cordwood.metadata.answers import describe_cluster as answers
from cordwood.metadata.answers.describe_cluster import EndpointType
from cordwood.net.api import RequestContext, handles
from cordwood.raft.identity import NO_NODE
from cordwood.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)


@handles(DescribeClusterRequest)
def describe_cluster(
    controller: Controller, request: DescribeClusterRequest, context: RequestContext
) -> DescribeClusterResponse:
    refused = answers.mismatch(request, context, EndpointType.CONTROLLER)
    if refused is not None:
        return refused
    nodes = [
        DescribeClusterBroker(broker_id=node_id, host=endpoint.host, port=endpoint.port)
        for node_id, endpoints in controller_endpoints(controller).items()
        for endpoint in endpoints
        if endpoint.listener == context.listener
    ]
    leader_id = controller.log.leader.leader_id
    return answers.describe_cluster(
        request, EndpointType.CONTROLLER, controller.cluster_id, nodes, NO_NODE if leader_id is None else leader_id
    )
