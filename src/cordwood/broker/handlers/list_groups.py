"""ListGroups: the groups that this broker coordinates.

Version 4 filters by state, version 5 by type; case does not matter.
"""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import answer_all
from cordwood.coordinator.errors import coordinator_error
from cordwood.coordinator.groups.listing import list_groups as decide_listing
from cordwood.coordinator.groups.shard_state import GroupShardState
from cordwood.net.api import Call, Result, handles
from cordwood.shard.promise import Promise
from cordwood.shard.refusal import Refusal
from cordwood.shard.shard import Shard
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse


@handles(ListGroupsRequest)
def list_groups(broker: Broker, request: ListGroupsRequest, call: Call) -> Result:
    if broker.groups.is_loading:
        return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    states = frozenset(state.lower() for state in request.states_filter)
    types = frozenset(kind.lower() for kind in request.types_filter)
    listed = [_of_shard(shard, states, types) for shard in broker.groups.shards]
    return answer_all(call, listed, _response)


def _of_shard(
    shard: Shard[GroupShardState], states: frozenset[str], types: frozenset[str]
) -> ListGroupsResponse | Promise[ListGroupsResponse]:
    """Returns the response of one shard."""
    try:
        result = shard.decide(lambda state: decide_listing(state, states, types))
    except Refusal as refusal:
        return _told(refusal)
    if not isinstance(result, Promise):
        return _told(result)
    told: Promise[ListGroupsResponse] = Promise()
    result.then(lambda outcome: told.resolve(_told(outcome)))
    return told


def _told(outcome: list[ListedGroup] | Refusal) -> ListGroupsResponse:
    if not isinstance(outcome, Refusal):
        return ListGroupsResponse(groups=outcome)
    error = coordinator_error(outcome.error)
    # Groups that have moved to another broker are listed there.
    return ListGroupsResponse(error_code=ErrorCode.NONE if error == ErrorCode.NOT_COORDINATOR else error, groups=[])


def _response(of_shards: list[ListGroupsResponse]) -> ListGroupsResponse:
    for of_shard in of_shards:
        if of_shard.error_code:
            return of_shard
    return ListGroupsResponse(groups=[group for of_shard in of_shards for group in of_shard.groups])
