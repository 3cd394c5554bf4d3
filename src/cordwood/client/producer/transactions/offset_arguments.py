"""Validates the arguments of `send_offsets_to_transaction` before anything is sent, while the call can still fail
cleanly."""

from collections.abc import Mapping
from typing import TypeAlias, cast

from cordwood.client.arguments import CommittedOffset, offsets_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import BadSetting
from cordwood.client.offset_types import OffsetAndMetadata

OffsetsToSend: TypeAlias = Mapping[TopicPartition, CommittedOffset] | Mapping[tuple[str, int], CommittedOffset]


def checked_offsets(offsets: OffsetsToSend) -> dict[TopicPartition, OffsetAndMetadata]:
    """Raises `BadSetting`."""
    # A plain tuple is a partition, too.
    return offsets_of(cast(Mapping[TopicPartition, CommittedOffset], offsets))


def checked_group(group: GroupMetadata) -> GroupMetadata:
    """Raises `BadSetting`, also for a bare group name: brokers could not fence a removed member."""
    if not isinstance(group, GroupMetadata):
        raise BadSetting(f"group_metadata is of type {type(group).__name__}; expected consumer.group_metadata()")
    is_whole = (
        isinstance(group.group_id, str)
        and isinstance(group.generation_id, int)
        and isinstance(group.member_id, str)
        and (group.group_instance_id is None or isinstance(group.group_instance_id, str))
    )
    if not is_whole:
        raise BadSetting(f"group_metadata is {group!r}; expected consumer.group_metadata()")
    return group
