"""ListPartitionReassignments: the partitions that are moving to other brokers, of all topics or of some."""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.controller import reassignment
from cordwood.net.api import RequestContext, handles
from cordwood.shard.decision import Decision
from cordwood.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)


@handles(ListPartitionReassignmentsRequest)
async def list_partition_reassignments(
    controller: Controller, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return await controller.decide_within(
        request.timeout_ms, lambda image: Decision(reassignment.list_partition_reassignments(image, request))
    )
