"""`cordwood group reset-offsets` and `delete-offsets`."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, Access, end_with, fail, reaching_cluster, run
from cordwood.cli.framework.completion import complete_group, complete_topic
from cordwood.cli.framework.name_choice import NoSuchName
from cordwood.cli.framework.times import parse_duration_ms
from cordwood.cli.groups.group_choice import describe_one
from cordwood.cli.groups.offset_reset import PlannedReset, ShiftBy, Target, plan_reset, read_targets
from cordwood.cli.records.spots import AtTime, BadSpot, parse_spot
from cordwood.cli.terminal.consent import Yes, YesDelete, confirm, confirm_deletion, shortened
from cordwood.cli.terminal.output import counted, note, print_json, print_table
from cordwood.cli.topics.partition_choice import PartitionChoice, chosen_partitions, parse_partition_choices
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.groups import GroupDescription
from cordwood.client.admin.offsets import GroupOffsets
from cordwood.client.admin.results import failures_of
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import ClientError
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.runtime.clock import SystemClock
from cordwood.wire.errors import ErrorCode

GroupName = Annotated[
    str, typer.Argument(metavar="GROUP", help="A group.", show_default=False, autocompletion=complete_group)
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        "-t",
        metavar="TOPIC[:PARTITION,...]",
        help="A topic, or some of its partitions; may be repeated.",
        show_default=False,
        autocompletion=complete_topic,
    ),
]
AllTopics = Annotated[bool, typer.Option("--all-topics", help="All topics with committed offsets.")]


@reaching_cluster
def reset_offsets(
    access: Access,
    name: GroupName,
    topics: Topics = None,
    all_topics: AllTopics = False,
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="SPOT",
            help="earliest, latest, an offset, -N (N before the end of each partition), @TIME, @-1h.",
        ),
    ] = None,
    by_duration: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="To the first record not older than this: 90s, 15m, 2h, 7d, PT1H30M."),
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option(metavar="N", help="Move N records forward from the committed offset; back with a minus."),
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="To the offsets in a file of TOPIC,PARTITION,OFFSET lines; - is standard input."
        ),
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the group if it does not exist.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")] = False,
    yes: Yes = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Move a group without members to other offsets. Shows old and new offsets, and asks on a terminal."""
    if [to, by_duration, shift_by, from_file].count(None) != 3:
        raise typer.BadParameter("give one of --to, --by-duration, --shift-by and --from-file", param_hint="--to")
    if from_file is not None:
        if topics or all_topics:
            raise typer.BadParameter("names its topics itself", param_hint="--from-file")
        fixed = _targets_of(from_file)
        plan_work = partial(_plan_fixed, name=name, create=create, targets=fixed)
    else:
        target = _target(to, by_duration, shift_by)
        choices = _choices(topics, all_topics)
        plan_work = partial(_plan, name=name, create=create, target=target, choices=choices)
    plan = run(access, plan_work)
    if as_json:
        print_json([_planned_as_json(reset) for reset in plan])
    else:
        print_table(
            ("topic", "partition", "from", "to"),
            [(reset.partition.topic, reset.partition.partition, reset.before, reset.after) for reset in plan],
        )
    if dry_run:
        return
    confirm(f"Reset {counted(len(plan), 'offset')} of group {name}?", yes)
    end_with(run(access, partial(_reset, name=name, plan=plan)))


@reaching_cluster
def delete_offsets(
    access: Access, name: GroupName, topics: Topics = None, all_topics: AllTopics = False, yes: YesDelete = False
) -> None:
    """Delete a group's committed offsets of topics that its members, if any, do not read."""
    choices = _choices(topics, all_topics)

    async def choose(admin: Admin) -> list[TopicPartition]:
        committed = await _committed(admin, name)
        for choice in choices or ():
            if not any(choice.has(partition) for partition in committed):
                raise ClientError(f"group {name} has no committed offsets for {_choice_text(choice)}")
        return [
            partition for partition in committed if choices is None or any(choice.has(partition) for choice in choices)
        ]

    partitions = run(access, choose)
    if not partitions:
        fail(f"group {name} has no committed offsets")
    confirm_deletion(
        f"{counted(len(partitions), 'offset')} of group {name}: {shortened(list(map(str, partitions)))}", yes
    )
    end_with(run(access, partial(_delete_offsets, name=name, partitions=partitions)))


async def _plan(
    admin: Admin, name: str, create: bool, target: Target, choices: Sequence[PartitionChoice] | None
) -> list[PlannedReset]:
    """Plans the reset of the chosen partitions; without choices, of all with committed offsets."""
    committed = await _committed_of_inactive(admin, name, create)
    if choices is not None:
        partitions = await chosen_partitions(admin, choices)
    else:
        partitions = await _still_there(admin, committed)
        if not partitions:
            raise ClientError(f"group {name} has no committed offsets; name the topics to reset with --topic")
    return await plan_reset(admin, dict.fromkeys(partitions, target), committed)


async def _plan_fixed(
    admin: Admin, name: str, create: bool, targets: dict[TopicPartition, Target]
) -> list[PlannedReset]:
    committed = await _committed_of_inactive(admin, name, create)
    await chosen_partitions(admin, [PartitionChoice(partition.topic, (partition.partition,)) for partition in targets])
    return await plan_reset(admin, targets, committed)


async def _committed_of_inactive(admin: Admin, name: str, create: bool) -> GroupOffsets:
    """Returns the committed offsets. Raises a `ClientError` if the group has members, which would go on from their own
    positions and commit them."""
    group = await describe_one(admin, name)
    if group is None:
        if create:
            return {}
        raise await _no_such_group(admin, name)
    if group.is_active:
        raise ClientError(_active_text(name, group))
    return await _offsets_of(admin, name)


async def _reset(admin: Admin, name: str, plan: Sequence[PlannedReset]) -> list[ClientError]:
    offsets = {reset.partition: OffsetAndMetadata(reset.after) for reset in plan}
    failures: list[ClientError] = []
    for error in (await failures_of(admin.alter_consumer_group_offsets(name, offsets))).values():
        if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS):
            return [ClientError(f"group {name} has gained members: nothing was reset ({error.code.name})")]
        failures.append(error)
    note(f"reset {counted(len(plan) - len(failures), 'offset')} of group {name}")
    return failures


async def _delete_offsets(admin: Admin, name: str, partitions: Sequence[TopicPartition]) -> list[ClientError]:
    failures: list[ClientError] = []
    for partition, error in (await failures_of(admin.delete_consumer_group_offsets(name, partitions))).items():
        if error.code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
            failures.append(ClientError(f"{partition}: members of group {name} are consuming it ({error.code.name})"))
        else:
            failures.append(error)
    note(f"deleted {counted(len(partitions) - len(failures), 'offset')} of group {name}")
    return failures


async def _committed(admin: Admin, name: str) -> GroupOffsets:
    if await describe_one(admin, name) is None:
        raise await _no_such_group(admin, name)
    return await _offsets_of(admin, name)


async def _offsets_of(admin: Admin, name: str) -> GroupOffsets:
    return (await admin.list_consumer_group_offsets([name]))[name]


async def _no_such_group(admin: Admin, name: str) -> NoSuchName:
    return NoSuchName("group", name, [group.id for group in await admin.list_groups()])


async def _still_there(admin: Admin, committed: GroupOffsets) -> list[TopicPartition]:
    """Leaves out deleted topics, whose offsets remain until they expire."""
    topics = await admin.list_topics(internal=True)
    return [
        partition
        for partition in committed
        if partition.topic in topics and partition.partition < len(topics[partition.topic].partitions)
    ]


def _targets_of(path: str) -> dict[TopicPartition, Target]:
    try:
        if path == "-":
            return read_targets(sys.stdin.read().splitlines())
        with open(path, encoding="utf-8") as file:
            return read_targets(file.read().splitlines())
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {path}: {getattr(error, 'strerror', None) or error}", EXIT_BAD_INPUT)
    except ClientError as error:
        fail(f"{path}: {error}", EXIT_BAD_INPUT)


def _target(to: str | None, by_duration: str | None, shift_by: int | None) -> Target:
    now_ms = SystemClock().now_ms()
    if to is not None:
        try:
            return parse_spot(to, now_ms)
        except BadSpot as error:
            raise typer.BadParameter(str(error), param_hint="--to") from error
    if by_duration is not None:
        try:
            return AtTime(max(0, now_ms - parse_duration_ms(by_duration)))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--by-duration") from error
    assert shift_by is not None
    return ShiftBy(shift_by)


def _choices(topics: Sequence[str] | None, all_topics: bool) -> list[PartitionChoice] | None:
    """None means all topics."""
    if bool(topics) == all_topics:
        raise typer.BadParameter("name topics, or give --all-topics", param_hint="--topic")
    return parse_partition_choices(topics, "--topic") if topics else None


def _choice_text(choice: PartitionChoice) -> str:
    return f"{choice.topic}:{','.join(map(str, choice.partitions))}" if choice.partitions else choice.topic


def _active_text(name: str, group: GroupDescription) -> str:
    members = counted(len(group.members), "member")
    return f"group {name} is {group.state} with {members}: its offsets can be reset only without active members"


def _planned_as_json(reset: PlannedReset) -> dict[str, Any]:
    return {
        "topic": reset.partition.topic,
        "partition": reset.partition.partition,
        "from": reset.before,
        "to": reset.after,
    }
