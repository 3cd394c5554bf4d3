"""`cordwood topic trim` and `cordwood topic offsets`: the first and last offsets of partitions, and deleting old
records."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

import typer

from cordwood.cli.connection.access import Access, end_with, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson, Partitions
from cordwood.cli.records.reading import bounds, resolve
from cordwood.cli.records.spots import BadSpot, Spot, parse_spot
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion, shortened
from cordwood.cli.terminal.output import counted, print_json, print_table
from cordwood.cli.topics.partition_choice import PartitionChoice, chosen_partitions, parse_partition_choices
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.results import settled
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError
from cordwood.client.offsets import OffsetSpec
from cordwood.runtime.clock import SystemClock


class Trim(NamedTuple):
    partition: TopicPartition
    start: int
    """The current log start."""
    new_start: int

    @property
    def record_count(self) -> int:
        """An upper bound: compaction may have removed some."""
        return self.new_start - self.start


@reaching_cluster
def trim(
    access: Access,
    topics: Partitions,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="SPOT",
            help="The first record to keep: an offset, -N (keep the last N), @TIME, @-7d, latest (keep none).",
            show_default=False,
        ),
    ],
    yes: YesDelete = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be deleted; delete nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the records before an offset or time. Prints topic, partition, old and new first offset."""
    choices = parse_partition_choices(topics, "TOPIC")
    try:
        spot = parse_spot(to, SystemClock().now_ms())
    except BadSpot as error:
        raise typer.BadParameter(str(error), param_hint="--to") from error

    async def plan(admin: Admin) -> list[Trim]:
        return await _plan(admin, choices, spot)

    trims = run(access, plan)
    if dry_run:
        _print(trims, as_json)
        return
    trims = [each for each in trims if each.record_count > 0]
    if trims:
        names = shortened([str(each.partition) for each in trims])
        confirm_deletion(f"{counted(sum(each.record_count for each in trims), 'record')} of {names}", yes)

    async def delete(admin: Admin) -> dict[TopicPartition, int | BrokerError]:
        return await settled(admin.delete_records({each.partition: each.new_start for each in trims}))

    outcomes = run(access, delete) if trims else {}
    done = []
    failures = []
    for each in trims:
        outcome = outcomes[each.partition]
        if isinstance(outcome, BrokerError):
            failures.append(outcome)
        else:
            done.append(each._replace(new_start=outcome))
    _print(done, as_json)
    end_with(failures)


@reaching_cluster
def offsets(
    access: Access,
    topics: Partitions,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at",
            metavar="WHERE",
            help="earliest, latest, max-timestamp, earliest-local, latest-tiered, or @TIME (@-1h); may be repeated. "
            "Default: earliest and latest.",
            show_default=False,
        ),
    ] = None,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="latest means the last stable offset.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show offsets of partitions: their start and end, or those of a time. Prints topic, partition, offsets."""
    choices = parse_partition_choices(topics, "TOPIC")
    wanted = {text: _spec(text) for text in at or ["earliest", "latest"]}

    async def work(admin: Admin) -> list[list[int | None]]:
        partitions = await chosen_partitions(admin, choices)
        columns = [
            await admin.list_offsets(dict.fromkeys(partitions, spec), read_committed=read_committed)
            for spec in wanted.values()
        ]
        found.extend(partitions)
        return [[None if listed[each].offset < 0 else listed[each].offset for listed in columns] for each in partitions]

    found: list[TopicPartition] = []
    rows = run(access, work)
    if as_json:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, "offsets": dict(zip(wanted, row, strict=True))}
                for each, row in zip(found, rows, strict=True)
            ]
        )
    else:
        print_table(
            ("topic", "partition", *wanted),
            [(each.topic, each.partition, *row) for each, row in zip(found, rows, strict=True)],
        )


async def _plan(admin: Admin, choices: Sequence[PartitionChoice], spot: Spot) -> list[Trim]:
    partitions = await chosen_partitions(admin, choices)
    starts, ends = await bounds(admin.list_offsets, partitions, read_committed=False)
    spots = dict.fromkeys(partitions, spot)
    targets = await resolve(admin.list_offsets, spots, starts, ends, read_committed=False)
    return [Trim(partition, starts[partition], targets[partition]) for partition in partitions]


def _spec(text: str) -> int:
    if text.startswith("@"):
        spot = parse_spot(text, SystemClock().now_ms())
        assert hasattr(spot, "timestamp_ms")
        return int(spot.timestamp_ms)
    try:
        return OffsetSpec[text.upper().replace("-", "_")]
    except KeyError:
        allowed = ", ".join(spec.name.lower().replace("_", "-") for spec in OffsetSpec)
        raise typer.BadParameter(f"{text!r} is not one of {allowed} and @TIME", param_hint="--at") from None


def _print(trims: Sequence[Trim], as_json: bool) -> None:
    if as_json:
        print_json(
            [
                {
                    "topic": each.partition.topic,
                    "partition": each.partition.partition,
                    "startOffset": each.start,
                    "newStartOffset": each.new_start,
                }
                for each in trims
            ]
        )
    else:
        print_table(
            ("topic", "partition", "start", "new start"),
            [(each.partition.topic, each.partition.partition, each.start, each.new_start) for each in trims],
        )
