"""DescribeCluster: the cluster's id, its controller and its nodes: brokers, or controllers if a controller is asked.

Version 1 has the requested kind of node, which must match the receiving node; version 2 can include fenced brokers.
"""

from __future__ import annotations

from enum import IntEnum

from cordwood.net.api import RequestContext
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

# There are no ACLs: every cluster operation of Kafka's AclOperation is allowed, one bit each.
ALL_ON_CLUSTER = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))

_KINDS_SINCE = 1


class EndpointType(IntEnum):
    BROKER = 1
    CONTROLLER = 2


def mismatch(
    request: DescribeClusterRequest, context: RequestContext, asked: EndpointType
) -> DescribeClusterResponse | None:
    """The error response to a request for another kind of node than the receiving one."""
    wanted = request.endpoint_type
    if wanted == asked:
        return None
    if wanted not in tuple(EndpointType):
        error, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {wanted}"
    else:
        error = ErrorCode.MISMATCHED_ENDPOINT_TYPE
        message = (
            f"The request was sent to an endpoint of type {asked.name}, but we wanted an endpoint of type "
            f"{EndpointType(wanted).name}"
        )
    # Version 0 has neither endpoint types nor their errors.
    code = error if context.version >= _KINDS_SINCE else ErrorCode.INVALID_REQUEST
    return DescribeClusterResponse(error_code=code, error_message=message, brokers=[])


def describe_cluster(
    request: DescribeClusterRequest,
    asked: EndpointType,
    cluster_id: str,
    nodes: list[DescribeClusterBroker],
    controller_id: int,
) -> DescribeClusterResponse:
    """A controller that is not among the nodes cannot be reached on this listener, and is omitted."""
    response = DescribeClusterResponse(endpoint_type=asked, cluster_id=cluster_id, brokers=nodes)
    response.controller_id = controller_id if any(node.broker_id == controller_id for node in nodes) else -1
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = ALL_ON_CLUSTER
    return response
