"""`cordwood group`: list, describe, reset-offsets, delete-offsets, delete."""

from collections.abc import Sequence
from enum import StrEnum
from functools import partial
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import Access, end_with, reaching_cluster, run
from cordwood.cli.framework.completion import complete_group
from cordwood.cli.framework.name_choice import choose_names
from cordwood.cli.groups.group_choice import DESCRIBED_KINDS, choose_groups, describe_known
from cordwood.cli.groups.group_description import describe_in_full, print_groups
from cordwood.cli.groups.group_offsets import delete_offsets, reset_offsets
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion, shortened
from cordwood.cli.terminal.output import counted, note, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.groups import GroupDescription, GroupListing
from cordwood.client.admin.results import failures_of, settled
from cordwood.client.errors import BrokerError, ClientError
from cordwood.wire.errors import ErrorCode

app = typer.Typer(
    help="List, describe, reset and delete consumer groups and their offsets.",
    no_args_is_help=True,
    add_completion=False,
)


class State(StrEnum):
    """The state names that brokers use, for both kinds of groups."""

    STABLE = "Stable"
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    DEAD = "Dead"


class Kind(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


Patterns = Annotated[
    list[str],
    typer.Argument(
        metavar="GROUP", help="Names, or patterns such as 'test-*'.", show_default=False, autocompletion=complete_group
    ),
]
OptionalPatterns = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="GROUP", help="Names, or patterns such as 'test-*'.", show_default=False, autocompletion=complete_group
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


@app.command(
    "list",
    epilog="Examples:\n\n"
    "cordwood group list\n\n"
    "cordwood group list 'billing-*' --state empty\n\n"
    "cordwood group list --type consumer --json",
)
@reaching_cluster
def list_all(
    access: Access,
    patterns: OptionalPatterns = None,
    states: Annotated[
        list[State] | None,
        typer.Option("--state", "-s", case_sensitive=False, help="Only groups in this state; may be repeated."),
    ] = None,
    kinds: Annotated[
        list[Kind] | None,
        typer.Option("--type", case_sensitive=False, help="Only groups of this type; may be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List groups with their state, type, protocol and number of members."""

    async def work(admin: Admin) -> list[tuple[GroupListing, int | None]]:
        groups = {group.id: group for group in await admin.list_groups(states=states or [], types=kinds or [])}
        chosen = [groups[name] for name in choose_names("group", list(groups), patterns or [], missing_ok=True)]
        known = [group.id for group in chosen if group.kind in DESCRIBED_KINDS]
        described = await settled(admin.describe_consumer_groups(known))
        return [(group, _size(described.get(group.id))) for group in chosen]

    listed = run(access, work)
    if as_json:
        print_json([_listed_as_json(group, size) for group, size in listed])
    else:
        print_table(
            ("group", "state", "type", "protocol", "members"),
            [(group.id, group.state, group.kind, group.protocol_type or None, size) for group, size in listed],
        )


@app.command(
    epilog="Examples:\n\n"
    "cordwood group describe billing\n\n"
    "cordwood group describe billing shipping --offsets\n\n"
    "cordwood group describe --all --json"
)
@reaching_cluster
def describe(
    access: Access,
    patterns: OptionalPatterns = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All groups.")] = False,
    members: Annotated[bool, typer.Option("--members", help="Only the members, and not the offsets.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Only the offsets, and not the members.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show groups: state, coordinator, members with their assignments, and the lag of each partition."""
    if bool(patterns) == everything:
        raise typer.BadParameter("name groups, or give --all", param_hint="GROUP")

    async def work(admin: Admin) -> list[dict[str, Any]]:
        groups = await choose_groups(admin, patterns or [])
        if everything:
            groups = [group for group in groups if group.kind in DESCRIBED_KINDS]
        return await describe_in_full(admin, await describe_known(admin, groups))

    described = run(access, work)
    both = members == offsets
    if as_json:
        left_out = () if both else ("offsets",) if members else ("members",)
        print_json([{name: value for name, value in group.items() if name not in left_out} for group in described])
    else:
        print_groups(described, members=members or both, offsets=offsets or both)


app.command(
    "reset-offsets",
    epilog="Examples:\n\n"
    "cordwood group reset-offsets billing --topic orders --to earliest --dry-run\n\n"
    "cordwood group reset-offsets billing --topic orders:0,1 --to 1200\n\n"
    "cordwood group reset-offsets billing --all-topics --to @2024-05-01T12:00:00Z\n\n"
    "cordwood group reset-offsets billing --all-topics --by-duration 2h\n\n"
    "cordwood group reset-offsets billing --topic orders --shift-by -100 --yes\n\n"
    "cordwood group reset-offsets billing --from-file offsets.csv",
)(reset_offsets)
app.command(
    "delete-offsets",
    epilog="Examples:\n\n"
    "cordwood group delete-offsets billing --topic orders\n\n"
    "cordwood group delete-offsets billing --topic orders:0,1 --topic bills --yes",
)(delete_offsets)


@app.command(epilog="Examples:\n\ncordwood group delete billing\n\ncordwood group delete 'test-*' --yes")
@reaching_cluster
def delete(
    access: Access,
    patterns: Patterns,
    yes: YesDelete = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Ignore missing ones.")] = False,
) -> None:
    """Delete groups that have no members, with their offsets."""

    async def choose(admin: Admin) -> list[str]:
        return [group.id for group in await choose_groups(admin, patterns, missing_ok=if_exists)]

    names = run(access, choose)
    if not names:
        return
    confirm_deletion(f"{counted(len(names), 'group')}: {shortened(names)}", yes)
    end_with(run(access, partial(_delete, names=names)))


@app.command(
    "remove-members",
    epilog="Examples:\n\n"
    "cordwood group remove-members billing --all\n\n"
    "cordwood group remove-members billing --instance worker-3 --yes",
)
@reaching_cluster
def remove_members(
    access: Access,
    group: Annotated[
        str,
        typer.Argument(metavar="GROUP", help="The group.", show_default=False, autocompletion=complete_group),
    ],
    instances: Annotated[
        list[str] | None, typer.Option("--instance", metavar="ID", help="A static member; may be repeated.")
    ] = None,
    members: Annotated[
        list[str] | None, typer.Option("--member", metavar="ID", help="Another member, by its id; may be repeated.")
    ] = None,
    everyone: Annotated[bool, typer.Option("--all", "-a", help="All members.")] = False,
    reason: Annotated[str | None, typer.Option(help="Reason, for the brokers' logs.")] = None,
    yes: YesDelete = False,
) -> None:
    """Remove members from a group, such as static members whose process has died. A live member joins again."""
    named = [*(instances or []), *(members or [])]
    if bool(named) == everyone:
        raise typer.BadParameter("name members, or give --all", param_hint="--member")
    confirm_deletion(f"{shortened(named) or 'all members'} from group {group}", yes)

    async def work(admin: Admin) -> list[BrokerError]:
        call = admin.remove_members_from_consumer_group(
            group, instance_ids=instances or [], member_ids=members or [], reason=reason
        )
        return list((await failures_of(call)).values())

    end_with(run(access, work))


async def _delete(admin: Admin, names: Sequence[str]) -> list[ClientError]:
    failures: list[ClientError] = []
    failed = await failures_of(admin.delete_consumer_groups(names))
    for name in names:
        error = failed.get(name)
        if error is None:
            note(f"deleted {name}")
        elif error.code == ErrorCode.NON_EMPTY_GROUP:
            failures.append(ClientError(f"group {name} has members; stop them first ({error.code.name})"))
        else:
            failures.append(error)
    return failures


def _size(described: GroupDescription | BrokerError | None) -> int | None:
    return len(described.members) if isinstance(described, GroupDescription) else None


def _listed_as_json(group: GroupListing, size: int | None) -> dict[str, Any]:
    return {
        "groupId": group.id,
        "state": group.state,
        "type": group.kind,
        "protocolType": group.protocol_type,
        "members": size,
        "coordinator": group.coordinator,
    }
