"""DescribeCluster: see `metadata.answers.describe_cluster`; a controller describes controllers."""

from __future__ import annotations

from typing import NamedTuple

from cordwood.controller.controller import Controller
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
        for node_id, endpoints in _endpoints(controller).items()
        for endpoint in endpoints
        if endpoint.listener == context.listener
    ]
    leader_id = controller.log.leader.leader_id
    return answers.describe_cluster(
        request, EndpointType.CONTROLLER, controller.cluster_id, nodes, NO_NODE if leader_id is None else leader_id
    )


class _Endpoint(NamedTuple):
    listener: str
    host: str
    port: int


def _endpoints(controller: Controller) -> dict[int, list[_Endpoint]]:
    """Endpoints by controller id: as registered by the controllers, or else from the voters record."""
    voters = controller.log.quorum.voters
    found = {
        voter.voter_id: [_Endpoint(end.name, end.host, end.port) for end in voter.endpoints]
        for voter in (voters.voters if voters is not None else ())
    }
    for node in controller.image.controllers.values():
        found[node.id] = [_Endpoint(end.name, end.host, end.port) for end in node.endpoints]
    return found
