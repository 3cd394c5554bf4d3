"""Which groups a command means."""

from collections.abc import Sequence

from cordwood.cli.name_choice import choose_names
from cordwood.client.admin.groups import CLASSIC, CONSUMER, GroupDescription, GroupListing, describe_groups, list_groups
from cordwood.client.client import Client
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode

DESCRIBED_KINDS = (CLASSIC, CONSUMER)
"""Those whose members and offsets these commands know."""


async def choose_groups(client: Client, patterns: Sequence[str], *, missing_ok: bool = False) -> list[GroupListing]:
    """By names and patterns; all of them without. Raises a `ClientError` for one that is not there."""
    groups = {group.id: group for group in await list_groups(client)}
    return [groups[name] for name in choose_names("group", list(groups), patterns, missing_ok=missing_ok)]


async def describe_known(client: Client, groups: Sequence[GroupListing]) -> list[GroupDescription]:
    """In their order, without those that are gone meanwhile. Raises a `ClientError` for one of another kind."""
    for group in groups:
        if group.kind not in DESCRIBED_KINDS:
            raise ClientError(f"group {group.id} is a {group.kind} group; classic and consumer groups are described")
    described = await describe_groups(client, [group.id for group in groups])
    found = []
    for description in described.values():
        if not isinstance(description, BrokerError):
            found.append(description)
        elif description.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise description
    return found


async def describe_one(client: Client, name: str) -> GroupDescription | None:
    """None if it is not there."""
    description = (await describe_groups(client, [name]))[name]
    if not isinstance(description, BrokerError):
        return description
    if description.code == ErrorCode.GROUP_ID_NOT_FOUND:
        return None
    raise description
