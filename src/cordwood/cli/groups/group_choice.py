"""Resolves the groups that a command names."""

from collections.abc import Sequence

from cordwood.cli.framework.name_choice import choose_names
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.groups import CLASSIC, CONSUMER, GroupDescription, GroupListing
from cordwood.client.admin.results import settled
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode

DESCRIBED_KINDS = (CLASSIC, CONSUMER)
"""The kinds whose members and offsets these commands can show."""


async def choose_groups(admin: Admin, patterns: Sequence[str], *, missing_ok: bool = False) -> list[GroupListing]:
    """Resolves names and patterns; all groups if there are none. Raises a `ClientError` for a missing group."""
    groups = {group.id: group for group in await admin.list_groups()}
    return [groups[name] for name in choose_names("group", list(groups), patterns, missing_ok=missing_ok)]


async def describe_known(admin: Admin, groups: Sequence[GroupListing]) -> list[GroupDescription]:
    """Describes the groups in order, without those deleted in between. Raises a `ClientError` for a group of another
    kind."""
    for group in groups:
        if group.kind not in DESCRIBED_KINDS:
            raise ClientError(f"group {group.id} is a {group.kind} group; classic and consumer groups are described")
    described = await settled(admin.describe_consumer_groups([group.id for group in groups]))
    found = []
    for description in described.values():
        if not isinstance(description, BrokerError):
            found.append(description)
        elif description.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise description
    return found


async def describe_one(admin: Admin, name: str) -> GroupDescription | None:
    """None if the group does not exist."""
    try:
        return (await admin.describe_consumer_groups([name]))[name]
    except BrokerError as error:
        if error.code == ErrorCode.GROUP_ID_NOT_FOUND:
            return None
        raise
