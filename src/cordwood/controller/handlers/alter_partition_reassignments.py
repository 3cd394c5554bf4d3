"""AlterPartitionReassignments: partitions move to other brokers, or stop moving.

Each partition has its own result. The response is sent when the plan is committed; the data moves after that, and
ListPartitionReassignments shows the progress. A new plan for a moving partition replaces the current one; a plan
without replicas cancels it. Version 1 can forbid that the replication factor changes.
"""

from __future__ import annotations

from cordwood.controller.controller import Controller
from cordwood.metadata.controller import reassignment
from cordwood.net.api import RequestContext, handles
from cordwood.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)


@handles(AlterPartitionReassignmentsRequest)
async def alter_partition_reassignments(
    controller: Controller, request: AlterPartitionReassignmentsRequest, context: RequestContext
) -> AlterPartitionReassignmentsResponse:
    return await controller.decide_within(
        request.timeout_ms,
        lambda image: reassignment.alter_partition_reassignments(image, request, controller.defaults),
    )
