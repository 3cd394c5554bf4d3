"""`cordwood consume`: a topic's records, to its end or following it."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import typer

from cordwood.cli.access import Access, reaching_cluster, run
from cordwood.cli.completion import complete_group, complete_topic
from cordwood.cli.output import print_bytes, warn
from cordwood.cli.progress import Update, progress
from cordwood.cli.reading import Offsets, bounds, resolve
from cordwood.cli.record_format import (
    BadFormat,
    Formatter,
    json_format,
    key_value_format,
    parse_format,
    unescape,
    value_format,
)
from cordwood.cli.spots import Earliest, Latest, Spot, lies_before, parse_spots
from cordwood.client.admin.admin import Admin
from cordwood.client.client import Client
from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadSetting
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork

app = typer.Typer(add_completion=False)

T = TypeVar("T")

# Who wants fewer records than this has them fetched in small pieces.
_FEW = 1000
_FEW_BYTES = 64 * 1024

_FIELDS_HELP = "{topic} {partition} {offset} {timestamp} {time} {key} {value} {headers} {key_size} {value_size}"


@dataclass(frozen=True, slots=True)
class _Selection:
    """What to read."""

    partitions: Sequence[int]
    """Empty: all."""
    start: Sequence[str]
    until: Sequence[str]
    follow: bool
    count: int | None
    read_committed: bool


@app.command(
    epilog="Examples:\n\n"
    "cordwood consume orders\n\n"
    "cordwood consume orders --follow --from latest --keys\n\n"
    "cordwood consume orders --from @-1h --until @-30m --json | jq .value\n\n"
    "cordwood consume orders --partition 2 --from -10 --format '{offset} {time} {key} {value}\\n'\n\n"
    "cordwood consume orders --group billing --follow"
)
@reaching_cluster
def consume(
    access: Access,
    topic: Annotated[str, typer.Argument(help="The topic to read.", show_default=False, autocompletion=complete_topic)],
    start: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            "-o",
            metavar="SPOT",
            help="Where to begin: earliest, latest, an offset, -N (the last N of each partition), @TIME, @-1h; "
            "for one partition: 0=SPOT. May be repeated. Default: earliest.",
            show_default=False,
        ),
    ] = None,
    until: Annotated[
        list[str] | None,
        typer.Option(
            "--until", metavar="SPOT", help="Where to stop, before that record; as --from.", show_default=False
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is written later; so does --from latest.")
    ] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="Stop after so many records.")] = None,
    partitions: Annotated[
        list[int] | None, typer.Option("--partition", "-p", min=0, help="Only this one; may be repeated.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            metavar="GROUP",
            help="Read as a member of this group: from where it stands, and commit what is printed.",
            autocompletion=complete_group,
        ),
    ] = None,
    keys: Annotated[bool, typer.Option("--keys", "-k", help="Print key, separator and value.")] = False,
    key_separator: Annotated[
        str, typer.Option("--key-separator", "-K", metavar="TEXT", help="What stands between key and value.")
    ] = r"\t",
    text_format: Annotated[
        str | None, typer.Option("--format", "-F", metavar="FORMAT", help=f"Fields: {_FIELDS_HELP}.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line; bytes that are not text are base64.")
    ] = False,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="What ends a record; not for --json or --format.")
    ] = r"\n",
    null: Annotated[
        str, typer.Option("--null", metavar="TEXT", help="What is printed for a key or value that is null.")
    ] = "",
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Leave out transactions that are open or aborted.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar.")] = False,
) -> None:
    """Print a topic's records, as cat does, or as tail -f does with --follow. Ctrl-C ends it."""
    formatter = _formatter(keys, key_separator, text_format, as_json, delimiter, null)
    if follow and until:
        raise typer.BadParameter("goes with --until no better than an end with no end", param_hint="--follow")
    # From the end on there is nothing to read but what is written later.
    follow = follow or (not until and _is_latest(start or []))
    selection = _Selection(partitions or [], start or [], until or [], follow, count, read_committed)
    if group is not None:
        _consume_in_group(access, topic, group, selection, formatter)
        return

    async def work(admin: Admin) -> None:
        starts, ends = await _bounds(admin, topic, selection)
        total = None if ends is None else sum(max(0, ends[partition] - starts[partition]) for partition in starts)
        # Where records go to the terminal, they are progress enough.
        wanted = not quiet and not follow and count is None and not sys.stdout.isatty()
        with progress(topic, total, wanted=wanted) as update:
            await _print_partitions(_settings(access, selection), topic, selection, starts, ends, formatter, update)

    run(access, work)


def _consume_in_group(access: Access, topic: str, group: str, selection: _Selection, formatter: Formatter) -> None:
    if selection.partitions or selection.until:
        raise typer.BadParameter("goes with neither --partition nor --until", param_hint="--group")
    start = selection.start[0] if selection.start else "earliest"
    if len(selection.start) > 1 or start not in ("earliest", "latest"):
        raise typer.BadParameter(
            "with --group there are earliest and latest: where to begin while the group has committed nothing",
            param_hint="--from",
        )

    # A whole consumer, which costs who does without it a third more time to start.
    from cordwood.cli.group_reading import print_as_member

    async def work(admin: Admin) -> None:
        await _known_topic(admin.client, topic)
        settings = _settings(access, selection, group_id=group, auto_offset_reset=start)
        await print_as_member(topic, settings, formatter, count=selection.count, follow=selection.follow)

    run(access, work)


def _settings(access: Access, selection: _Selection, **own: Any) -> ConsumerSettings:
    if (selection.count or _FEW) < _FEW:
        # No need for a broker to send many.
        own["max_partition_fetch_bytes"] = _FEW_BYTES
    return access.settings_of(
        ConsumerSettings,
        isolation_level="read_committed" if selection.read_committed else "read_uncommitted",
        allow_auto_create_topics=False,
        **{"auto_offset_reset": "none"} | own,
    )


async def _bounds(admin: Admin, topic: str, selection: _Selection) -> tuple[Offsets, Offsets | None]:
    """Where to begin, and where to stop, if anywhere."""
    partitions = _chosen(await _known_topic(admin.client, topic), selection.partitions)
    first = _spots(partitions, selection.start, Earliest())
    last = _spots(partitions, selection.until, Latest())
    for partition, spot in first.items():
        if lies_before(last[partition], spot):
            raise BadSetting(f"{partition}: --until lies before --from, so there is nothing to read")
    committed = selection.read_committed
    starts, ends = await bounds(admin, partitions, read_committed=committed)
    positions = await resolve(admin, first, starts, ends, read_committed=committed)
    if selection.follow:
        return positions, None
    return positions, await resolve(admin, last, starts, ends, read_committed=committed)


async def _print_partitions(
    settings: ConsumerSettings,
    topic: str,
    selection: _Selection,
    starts: Offsets,
    ends: Offsets | None,
    formatter: Formatter,
    update: Update,
) -> None:
    from cordwood.cli.partition_reading import PartitionReading, read_later_partitions
    from cordwood.client.consumer.consumer import Consumer

    count, printed = selection.count, 0
    if count == 0:
        return
    async with Consumer(settings=settings, network=SocketNetwork()) as consumer:
        reading = PartitionReading(consumer, starts, ends, _warn_of_gap)
        watcher = None
        if selection.follow and not selection.partitions:
            watcher = asyncio.get_running_loop().create_task(read_later_partitions(consumer, topic))
        try:
            async with aclosing(reading.records()) as stream:
                async for found in stream:
                    records = found if count is None else found[: count - printed]
                    print_bytes(map(formatter, records))
                    printed += len(records)
                    update(reading.passed_offsets, printed)
                    if printed == count:
                        return
        finally:
            if watcher is not None:
                watcher.cancel()


def _warn_of_gap(partition: TopicPartition, position: int, start: int) -> None:
    warn(f"{partition}: records {position} to {start - 1} were deleted before they were read")


async def _known_topic(client: Client, name: str) -> Topic:
    return (await client.topics([name]))[name]


def _chosen(topic: Topic, wanted: Sequence[int]) -> list[TopicPartition]:
    count = len(topic.partitions)
    for partition in wanted:
        if partition >= count:
            raise BadSetting(f"topic {topic.name} has no partition {partition}; it has 0 to {count - 1}")
    return [TopicPartition(topic.name, partition) for partition in sorted(set(wanted)) or range(count)]


def _spots(partitions: Sequence[TopicPartition], texts: Sequence[str], default: Spot) -> dict[TopicPartition, Spot]:
    numbers = [partition.partition for partition in partitions]
    spots = parse_spots(texts, numbers, SystemClock().now_ms(), default)
    return {partition: spots[partition.partition] for partition in partitions}


def _is_latest(texts: Sequence[str]) -> bool:
    return bool(texts) and all(text in ("latest", "end") for text in texts)


def _formatter(
    keys: bool, key_separator: str, text_format: str | None, as_json: bool, delimiter: str, null: str
) -> Formatter:
    if keys + (text_format is not None) + as_json > 1:
        raise typer.BadParameter("one of --keys, --format and --json", param_hint="--format")
    if as_json:
        return json_format
    if text_format is not None:
        return _checked("--format", lambda: parse_format(text_format, null.encode()))
    end = _checked("--delimiter", lambda: unescape(delimiter).encode())
    if keys:
        between = _checked("--key-separator", lambda: unescape(key_separator).encode())
        return key_value_format(between, end, null.encode())
    return value_format(end, null.encode())


def _checked(option: str, parse: Callable[[], T]) -> T:
    try:
        return parse()
    except BadFormat as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
