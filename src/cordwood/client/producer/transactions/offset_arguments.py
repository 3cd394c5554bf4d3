"""What an application gives `send_offsets_to_transaction`: held against what a request can carry before anything is
begun, because later there is nobody to tell."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.membership.events import GroupMetadata
from cordwood.client.errors import BadSetting
from cordwood.client.offset_types import OffsetAndMetadata

OffsetsToSend: TypeAlias = (
    Mapping[TopicPartition, OffsetAndMetadata | int] | Mapping[tuple[str, int], OffsetAndMetadata | int]
)

_PARTITIONS_END = 1 << 31
_OFFSETS_END = 1 << 63


def checked_offsets(offsets: OffsetsToSend) -> dict[TopicPartition, OffsetAndMetadata]:
    """Raises `BadSetting`."""
    if not isinstance(offsets, Mapping):
        raise BadSetting(f"offsets is {offsets!r}; expected a dict of TopicPartition to offset")
    return dict(_checked(partition, offset) for partition, offset in offsets.items())


def checked_group(group: GroupMetadata) -> GroupMetadata:
    """Raises `BadSetting`, also for a group by its name alone: brokers could not tell a member that is one no more."""
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


def _checked(partition: Any, offset: Any) -> tuple[TopicPartition, OffsetAndMetadata]:
    match partition:
        case (str(topic), int(index)) if 0 <= index < _PARTITIONS_END:
            name = TopicPartition(topic, index)
        case _:
            raise BadSetting(f"offsets are of {partition!r}; expected a TopicPartition")
    told = OffsetAndMetadata(offset) if isinstance(offset, int) else offset
    match told:
        case OffsetAndMetadata(int(number), str(), None | int()) if 0 <= number < _OFFSETS_END:
            return name, told
        case _:
            raise BadSetting(f"the offset of {name} is {offset!r}; expected an int from 0 or an OffsetAndMetadata")
