"""Requests between members of the metadata quorum, and about it. `raft.api` has the contract of each request."""

from __future__ import annotations

from typing import Any

from cordwood.controller.controller import Controller
from cordwood.net.api import Handler, RequestContext, handles
from cordwood.wire.messages.add_raft_voter import AddRaftVoterRequest
from cordwood.wire.messages.begin_quorum_epoch import BeginQuorumEpochRequest
from cordwood.wire.messages.describe_quorum import DescribeQuorumRequest
from cordwood.wire.messages.end_quorum_epoch import EndQuorumEpochRequest
from cordwood.wire.messages.fetch import FetchRequest
from cordwood.wire.messages.fetch_snapshot import FetchSnapshotRequest
from cordwood.wire.messages.remove_raft_voter import RemoveRaftVoterRequest
from cordwood.wire.messages.update_raft_voter import UpdateRaftVoterRequest
from cordwood.wire.messages.vote import VoteRequest
from cordwood.wire.schema import Request, Response


async def _answer(controller: Controller, request: Request[Any], context: RequestContext) -> Response:
    return await controller.log.answer(request, context.version, context.listener)


QUORUM_HANDLERS: tuple[Handler[Controller], ...] = tuple(
    handles(request, listeners=("controller",))(_answer)
    for request in (
        AddRaftVoterRequest,
        BeginQuorumEpochRequest,
        DescribeQuorumRequest,
        EndQuorumEpochRequest,
        FetchRequest,
        FetchSnapshotRequest,
        RemoveRaftVoterRequest,
        UpdateRaftVoterRequest,
        VoteRequest,
    )
)
