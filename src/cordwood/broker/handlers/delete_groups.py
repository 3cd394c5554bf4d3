"""DeleteGroups: deletes groups without members, with their offsets."""

from __future__ import annotations

from functools import partial

from cordwood.broker.broker import Broker
from cordwood.broker.coordination.asking import answer_all, consult
from cordwood.coordinator.groups.deletion import delete_groups as decide_deletions
from cordwood.net.api import Call, Result, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@handles(DeleteGroupsRequest)
def delete_groups(broker: Broker, request: DeleteGroupsRequest, call: Call) -> Result:
    by_shard: dict[int, list[str]] = {}
    # A group that is named twice is deleted once.
    for group_id in dict.fromkeys(request.groups_names):
        by_shard.setdefault(broker.groups.index_of(group_id), []).append(group_id)
    results = [
        consult(
            broker.groups, group_ids[0], partial(decide_deletions, group_ids=group_ids), partial(_refused, group_ids)
        )
        for group_ids in by_shard.values()
    ]
    return answer_all(
        call, results, lambda of_shards: DeleteGroupsResponse(results=[result for some in of_shards for result in some])
    )


def _refused(group_ids: list[str], error: ErrorCode, _message: str) -> list[DeletableGroupResult]:
    return [DeletableGroupResult(group_id=group_id, error_code=error) for group_id in group_ids]
