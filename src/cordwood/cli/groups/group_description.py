"""The output of `cordwood group describe`: a group's state, members and lag."""

from collections.abc import Collection, Sequence
from itertools import groupby
from typing import Any

from cordwood.cli.terminal.output import print_facts, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.groups import GroupDescription, GroupMember
from cordwood.client.admin.offsets import GroupOffsets
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError
from cordwood.client.offsets import LATEST

Assignment = tuple[TopicPartition, ...]


async def describe_in_full(admin: Admin, groups: Sequence[GroupDescription]) -> list[dict[str, Any]]:
    """Returns the description in its JSON form."""
    committed = await admin.list_consumer_group_offsets([group.id for group in groups])
    owned = {partition for group in groups for partition in _owners(group)}
    ends = await _ends(admin, owned.union(*committed.values()))
    return [_described(admin, group, committed[group.id], ends) for group in groups]


def print_groups(described: Sequence[dict[str, Any]], *, members: bool, offsets: bool) -> None:
    for position, group in enumerate(described):
        if position:
            print()
        print_facts(_facts(group))
        if members and group["members"]:
            print_table(
                ("member", "instance", "client", "host", "epoch", "assignment"),
                [
                    (
                        member["memberId"],
                        member["instanceId"],
                        member["clientId"],
                        member["host"],
                        member["memberEpoch"],
                        _assignment_text(member["assignment"]),
                    )
                    for member in group["members"]
                ],
                title="Members",
                kind="member",
            )
        if offsets and group["offsets"]:
            print_table(
                ("topic", "partition", "committed", "end", "lag", "member", "client"),
                [
                    (
                        offset["topic"],
                        offset["partition"],
                        offset["committedOffset"],
                        offset["endOffset"],
                        offset["lag"],
                        offset["memberId"],
                        offset["clientId"],
                    )
                    for offset in group["offsets"]
                ],
                title="Offsets",
                kind="offset",
            )


def _facts(group: dict[str, Any]) -> list[tuple[str, Any]]:
    facts = [
        ("group", group["groupId"]),
        ("state", group["state"]),
        ("type", group["type"]),
        ("protocol", group["protocolType"] or None),
        ("assignor", group["assignor"] or None),
        ("coordinator", f"{group['coordinator']} {group['coordinatorAddress'] or ''}".rstrip()),
    ]
    if group["groupEpoch"] is not None:
        facts += [("epoch", group["groupEpoch"]), ("assignment epoch", group["assignmentEpoch"])]
    return [*facts, ("lag", group["lag"])]


def _described(
    admin: Admin, group: GroupDescription, committed: GroupOffsets, ends: dict[TopicPartition, int]
) -> dict[str, Any]:
    owners = _owners(group)
    offsets = []
    for partition in sorted(owners.keys() | committed.keys()):
        at = committed.get(partition)
        end = ends.get(partition)
        owner = owners.get(partition)
        offsets.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "committedOffset": None if at is None else at.offset,
                "committedLeaderEpoch": None if at is None else at.leader_epoch,
                "metadata": (at.metadata or None) if at is not None else None,
                "endOffset": end,
                # Negative if a topic was deleted and recreated: the committed offset belongs to the old topic.
                "lag": None if at is None or end is None else end - at.offset,
                "memberId": None if owner is None else owner.id,
                "clientId": None if owner is None else owner.client_id,
            }
        )
    coordinator = admin.client.cluster.brokers.get(group.coordinator)
    return {
        "groupId": group.id,
        "type": group.kind,
        "state": group.state,
        "protocolType": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "coordinatorAddress": None if coordinator is None else str(coordinator.address),
        "groupEpoch": group.epoch,
        "assignmentEpoch": group.assignment_epoch,
        "lag": _total_lag(offsets),
        "members": [_member_as_json(member) for member in group.members],
        "offsets": offsets,
    }


def _total_lag(offsets: Sequence[dict[str, Any]]) -> int | None:
    """None if a partition with records has no committed offset: where the group will start reading is unknown."""
    if any(offset["committedOffset"] is None and offset["endOffset"] for offset in offsets):
        return None
    lags = [offset["lag"] for offset in offsets if offset["lag"] is not None]
    return sum(lags) if lags else None


def _owners(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    return {partition: member for member in group.members for partition in member.assignment or ()}


def _member_as_json(member: GroupMember) -> dict[str, Any]:
    return {
        "memberId": member.id,
        "instanceId": member.instance_id,
        "clientId": member.client_id,
        "host": member.host,
        "rack": member.rack,
        "memberEpoch": member.epoch,
        "subscribedTopics": list(member.subscription),
        "subscribedRegex": member.subscription_regex,
        "assignment": _assignment_as_json(member.assignment),
        "targetAssignment": _assignment_as_json(member.target_assignment),
    }


def _assignment_as_json(assignment: Assignment | None) -> list[dict[str, Any]] | None:
    if assignment is None:
        return None
    return [
        {"topic": topic, "partitions": [partition.partition for partition in partitions]}
        for topic, partitions in groupby(assignment, key=lambda partition: partition.topic)
    ]


def _assignment_text(assignment: list[dict[str, Any]] | None) -> str | None:
    if not assignment:
        return None
    return " ".join(f"{topic['topic']}:{','.join(map(str, topic['partitions']))}" for topic in assignment)


async def _ends(admin: Admin, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """End offsets of the partitions that exist and have a leader. A deleted topic may still have committed offsets."""
    topics = await admin.list_topics(internal=True) if partitions else {}
    led = [
        partition
        for partition in partitions
        if partition.topic in topics
        and partition.partition < len(topics[partition.topic].partitions)
        and topics[partition.topic].partitions[partition.partition].leader in admin.client.cluster.brokers
    ]
    try:
        listed = await admin.list_offsets(dict.fromkeys(led, LATEST)) if led else {}
    except ClientError:
        # If a partition has lost its leader, only its lag is missing.
        return {}
    return {partition: found.offset for partition, found in listed.items()}
