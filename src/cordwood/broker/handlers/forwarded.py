"""Requests that any broker accepts and forwards to the controller (KIP-590). `controller.handlers` has their
contracts."""

from __future__ import annotations

from typing import Any

from cordwood.broker.broker import Broker
from cordwood.net.api import Call, Handler, handles
from cordwood.wire.messages.add_raft_voter import AddRaftVoterRequest
from cordwood.wire.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from cordwood.wire.messages.create_partitions import CreatePartitionsRequest
from cordwood.wire.messages.create_topics import CreateTopicsRequest
from cordwood.wire.messages.delete_topics import DeleteTopicsRequest
from cordwood.wire.messages.describe_quorum import DescribeQuorumRequest
from cordwood.wire.messages.elect_leaders import ElectLeadersRequest
from cordwood.wire.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from cordwood.wire.messages.unregister_broker import UnregisterBrokerRequest
from cordwood.wire.messages.update_features import UpdateFeaturesRequest
from cordwood.wire.schema import Request, Response


async def _forward(broker: Broker, request: Request[Any], call: Call) -> Response:
    response: Response = await broker.controller.ask(request, call)
    return response


FORWARDED: tuple[Handler[Broker], ...] = tuple(
    handles(request)(_forward)
    for request in (
        AddRaftVoterRequest,
        AlterPartitionReassignmentsRequest,
        CreatePartitionsRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        DescribeQuorumRequest,
        ElectLeadersRequest,
        ListPartitionReassignmentsRequest,
        RemoveRaftVoterRequest,
        UnregisterBrokerRequest,
        UpdateFeaturesRequest,
    )
)
