"""ConsumerGroupDescribe: a group from an administrator's point of view."""

from __future__ import annotations

from cordwood.coordinator.groups.assignors.spec import MemberPartitions
from cordwood.coordinator.groups.state import GroupState
from cordwood.metadata.image import Topics
from cordwood.shard.decision import Decision
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.consumer_group_describe import Assignment, DescribedGroup, TopicPartitions
from cordwood.wire.messages.consumer_group_describe import Member as DescribedMember

from .consumer_group import NO_TARGET, ConsumerGroup
from .member import Member
from .target import offered_assignors, preferred_assignor

_CLASSIC, _CONSUMER = 0, 1


def describe(state: GroupState, group_id: str) -> Decision[DescribedGroup]:
    group = state.groups.get(group_id)
    if group is None:
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    if not isinstance(group, ConsumerGroup):
        raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a consumer group.")
    topics = state.image.topics
    return Decision(
        DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.assignment_epoch,
            assignor_name=preferred_assignor(group, offered_assignors(state.config)[0]),
            members=[
                _described(member, group.target.get(member.member_id, NO_TARGET), topics)
                for member in group.members.values()
            ],
        )
    )


def _described(member: Member, target: MemberPartitions, topics: Topics) -> DescribedMember:
    # Partitions to be revoked still belong to the member.
    held = {topic_id: frozenset(numbers) for topic_id, numbers in member.assigned.items()}
    for topic_id, numbers in member.pending_revocation.items():
        held[topic_id] = held.get(topic_id, frozenset()) | numbers.keys()
    return DescribedMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(held, topics),
        target_assignment=_assignment(target, topics),
        member_type=_CONSUMER if member.classic is None else _CLASSIC,
    )


def _assignment(partitions: MemberPartitions, topics: Topics) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=topic.name, partitions=sorted(numbers))
            for topic_id, numbers in sorted(partitions.items())
            if (topic := topics.by_id.get(topic_id)) is not None
        ]
    )
