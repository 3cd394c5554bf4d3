"""Consumer groups and their committed offsets."""

from collections.abc import Collection, Mapping

from cordwood.client.admin import groups, offsets
from cordwood.client.admin.calls.connected import Connected
from cordwood.client.admin.groups import CONSUMER, KINDS, STATES, GroupDescription, GroupListing
from cordwood.client.admin.results import values
from cordwood.client.arguments import CommittedOffset, choices_of, name_of, names_of, offsets_of, partitions_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.offset_types import OffsetAndMetadata


class GroupCalls(Connected):
    async def list_groups(self, *, states: Collection[str] = (), types: Collection[str] = ()) -> list[GroupListing]:
        """Returns all groups by id, of every kind; filtered by state and type, if given."""
        chosen_states, kinds = choices_of(states, STATES, "states"), choices_of(types, KINDS, "types")
        return await groups.list_groups(await self._connected(), states=chosen_states, kinds=kinds)

    async def list_consumer_groups(
        self, *, states: Collection[str] = (), types: Collection[str] = ()
    ) -> list[GroupListing]:
        """Returns the groups that consist of consumers, or that only have offsets."""
        listed = await self.list_groups(states=states, types=types)
        return [group for group in listed if group.protocol_type in (CONSUMER, "")]

    async def describe_consumer_groups(self, group_ids: Collection[str]) -> dict[str, GroupDescription]:
        """Returns groups of the classic and the consumer protocol, with their members and assignments."""
        return values(await groups.describe_groups(await self._connected(), names_of(group_ids, "groups")))

    async def delete_consumer_groups(self, group_ids: Collection[str]) -> None:
        """Deletes groups without members, with their offsets."""
        values(await groups.delete_groups(await self._connected(), names_of(group_ids, "groups")))

    async def remove_members_from_consumer_group(
        self,
        group_id: str,
        *,
        instance_ids: Collection[str] = (),
        member_ids: Collection[str] = (),
        reason: str | None = None,
    ) -> None:
        """Removes members from a group: static ones by instance id, others by member id; all if none is named."""
        name_of(group_id, "group_id")
        instance_ids, member_ids = names_of(instance_ids, "instance_ids"), names_of(member_ids, "member_ids")
        client = await self._connected()
        if not instance_ids and not member_ids:
            group = (await self.describe_consumer_groups([group_id]))[group_id]
            instance_ids = [member.instance_id for member in group.members if member.instance_id is not None]
            member_ids = [member.id for member in group.members if member.instance_id is None]
            if not group.members:
                return
        values(
            await groups.remove_group_members(
                client, group_id, instance_ids=instance_ids, member_ids=member_ids, reason=reason
            )
        )

    async def list_consumer_group_offsets(
        self, group_ids: Collection[str], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Returns all committed offsets of each group; with `require_stable`, waits for pending transactions."""
        chosen = names_of(group_ids, "groups")
        client = await self._connected()
        return values(await offsets.list_group_offsets(client, chosen, require_stable=require_stable))

    async def alter_consumer_group_offsets(
        self, group_id: str, committed: Mapping[TopicPartition, CommittedOffset]
    ) -> None:
        """Commits offsets for a group without members, which need not exist yet; a plain number is an offset, too."""
        name_of(group_id, "group_id")
        values(await offsets.alter_group_offsets(await self._connected(), group_id, offsets_of(committed)))

    async def delete_consumer_group_offsets(self, group_id: str, partitions: Collection[TopicPartition]) -> None:
        """Deletes a group's committed offsets of topics that its members do not read."""
        name_of(group_id, "group_id")
        values(await offsets.delete_group_offsets(await self._connected(), group_id, partitions_of(partitions)))
