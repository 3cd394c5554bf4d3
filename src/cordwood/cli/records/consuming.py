"""The implementation of `cordwood consume`, without typer; consume.py explains the options."""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, NamedTuple, TypeVar

from cordwood.cli.connection.access import ACCESS_SPELLING, Access, BadOption, run_alone
from cordwood.cli.framework.quick import Spelling
from cordwood.cli.records.reading import Offsets, bounds, resolve
from cordwood.cli.records.record_format import (
    JSON_LAYOUT,
    BadFormat,
    Layout,
    key_value_layout,
    parse_format,
    unescape,
    value_layout,
)
from cordwood.cli.records.spots import Earliest, Latest, Spot, lies_before, parse_spots
from cordwood.cli.terminal.output import print_bytes, warn
from cordwood.cli.terminal.progress import Update, progress
from cordwood.cli.topics.topic_choice import NoSuchTopic, choose_visible, is_pattern
from cordwood.client.client import Client
from cordwood.client.cluster import Topic, TopicPartition
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadSetting, TopicNotFound
from cordwood.client.offsets import list_offsets
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.record_text import RecordText

T = TypeVar("T")

# Below this many records, fetches are small.
_FEW = 1000
_FEW_BYTES = 64 * 1024
_TO_ITS_END = ("latest", "end")


class ConsumeOptions(NamedTuple):
    """The arguments of `cordwood consume`, named as in consume.py."""

    topics: Sequence[str]
    """Names and shell patterns."""
    start: Sequence[str] = ()
    until: Sequence[str] = ()
    follow: bool = False
    record_count: int | None = None
    partitions: Sequence[int] = ()
    """Empty means all."""
    group: str | None = None
    keys: bool = False
    key_separator: str = r"\t"
    text_format: str | None = None
    as_json: bool = False
    delimiter: str = r"\n"
    null: str = ""
    read_committed: bool = False
    quiet: bool = False
    registry: str | None = None
    registry_user: str | None = None


SPELLING = Spelling(
    {
        "--from": "start",
        "-o": "start",
        "-f": "follow",
        "--count": "record_count",
        "-n": "record_count",
        "--partition": "partitions",
        "-p": "partitions",
        "-g": "group",
        "-k": "keys",
        "-K": "key_separator",
        "--format": "text_format",
        "-F": "text_format",
        "--json": "as_json",
        "-D": "delimiter",
        "-q": "quiet",
    }
    | ACCESS_SPELLING,
    ("topics",),
)


def consume_records(access: Access, options: ConsumeOptions) -> None:
    """Runs the command. Raises `BadOption` before anything is done, or `SystemExit`."""
    text = RecordText(_layout(options), options.null.encode())
    _check(options)
    # Starting at the end without following would print nothing.
    from_end = bool(options.start) and all(spot in _TO_ITS_END for spot in options.start)
    options = options._replace(follow=options.follow or (not options.until and from_end))
    if options.group is not None:
        _consume_in_group(access, options, options.group, text)
    else:
        run_alone(lambda: _consume(access, options, text))


async def _consume(access: Access, options: ConsumeOptions, text: RecordText) -> None:
    settings = _settings(access, options)
    async with await Client.connect(settings.bootstrap_servers, settings, network=SocketNetwork()) as client:
        starts, ends = await _bounds(client, options, settings)
    total = None if ends is None else sum(max(0, ends[partition] - starts[partition]) for partition in starts)
    # Records printed to the terminal are progress enough.
    wanted = not options.quiet and not options.follow and options.record_count is None and not sys.stdout.isatty()
    with progress(" ".join(options.topics), total, wanted=wanted) as update:
        await _print_partitions(settings, options, starts, ends, text, update)


def _consume_in_group(access: Access, options: ConsumeOptions, group: str, text: RecordText) -> None:
    start = options.start[0] if options.start else "earliest"
    # Imported when needed: a whole consumer makes the start a third slower.
    from cordwood.cli.records.group_reading import print_as_member

    async def work() -> None:
        settings = _settings(access, options, group_id=group, auto_offset_reset=start)
        async with await Client.connect(settings.bootstrap_servers, settings, network=SocketNetwork()) as client:
            await _chosen_topics(client, options.topics)
        await print_as_member(options.topics, settings, text, count=options.record_count, follow=options.follow)

    run_alone(work)


def _check(options: ConsumeOptions) -> None:
    if options.follow and options.until:
        raise BadOption("--follow cannot be combined with --until", "--follow")
    if options.record_count is not None and options.record_count < 0:
        raise BadOption(f"{options.record_count} is not a number of records", "--count")
    if any(partition < 0 for partition in options.partitions):
        raise BadOption(f"{min(options.partitions)} is not a partition number", "--partition")
    if options.registry is not None and options.group is not None:
        raise BadOption("cannot be combined with --group", "--registry")
    if options.group is None:
        return
    if options.partitions or options.until:
        raise BadOption("cannot be combined with --partition or --until", "--group")
    if len(options.start) > 1 or (options.start and options.start[0] not in ("earliest", "latest")):
        raise BadOption(
            "with --group, only earliest and latest are allowed: they apply while the group has no committed offsets",
            "--from",
        )


def _settings(access: Access, options: ConsumeOptions, **own: Any) -> ConsumerSettings:
    if (options.record_count or _FEW) < _FEW:
        # Don't have brokers send many records.
        own["max_partition_fetch_bytes"] = _FEW_BYTES
    if options.read_committed:
        own["isolation_level"] = "read_committed"
    own = {"auto_offset_reset": "none", "group_id": None} | own
    return access.settings_of(ConsumerSettings, allow_auto_create_topics=False, **own)


async def _bounds(
    client: Client, options: ConsumeOptions, settings: ConsumerSettings
) -> tuple[Offsets, Offsets | None]:
    """Returns the start offsets and, if there are any, the end offsets."""
    topics = await _chosen_topics(client, options.topics)
    partitions = [partition for topic in topics for partition in _chosen(topic, options.partitions)]
    first = _spots(partitions, options.start, Earliest())
    last = _spots(partitions, options.until, Latest())
    for partition, spot in first.items():
        if lies_before(last[partition], spot):
            raise BadSetting(f"{partition}: --until is before --from: nothing to read")
    committed = settings.isolation_level == "read_committed"
    listing = partial(list_offsets, client)
    starts, ends = await bounds(listing, partitions, read_committed=committed)
    positions = await resolve(listing, first, starts, ends, read_committed=committed)
    if options.follow:
        return positions, None
    return positions, await resolve(listing, last, starts, ends, read_committed=committed)


async def _print_partitions(
    settings: ConsumerSettings,
    options: ConsumeOptions,
    starts: Offsets,
    ends: Offsets | None,
    text: RecordText,
    update: Update,
) -> None:
    from cordwood.cli.records.partition_reading import PartitionReading, read_later_partitions
    from cordwood.client.consumer.consumer import Consumer

    left = options.record_count
    if left == 0:
        return
    async with Consumer(settings=settings, network=SocketNetwork()) as consumer:
        if options.registry is None:
            reading = PartitionReading(consumer, starts, ends, _warn_of_gap)
        else:
            from cordwood.cli.schemas.access import registry_client
            from cordwood.cli.schemas.values import DecodedReading
            from cordwood.registry import Deserializer

            client = registry_client(options.registry, options.registry_user)
            reading = DecodedReading(consumer, starts, ends, _warn_of_gap)
            reading.deserializer = Deserializer(client)
        watcher = None
        if options.follow and not options.partitions:
            watching = read_later_partitions(consumer, options.topics)
            watcher = asyncio.get_running_loop().create_task(watching)
        printed = 0
        try:
            async with aclosing(reading.written(text, left)) as counts:
                async for count in counts:
                    print_bytes(text.take())
                    printed += count
                    update(reading.passed_offsets, printed)
        finally:
            if watcher is not None:
                watcher.cancel()


def _warn_of_gap(partition: TopicPartition, position: int, start: int) -> None:
    warn(f"{partition}: records {position} to {start - 1} were deleted before they were read")


async def _chosen_topics(client: Client, patterns: Sequence[str]) -> list[Topic]:
    """Returns the named and the matching topics. Raises `NoSuchTopic`."""
    names = [pattern for pattern in patterns if not is_pattern(pattern)]
    try:
        named = await client.topics(names)
    except TopicNotFound as error:
        kind, _, name = (error.subject or "").partition(" ")
        if kind != "topic":
            raise
        from cordwood.cli.framework.name_choice import NoSuchName

        raise NoSuchName("topic", name, await client.all_topics()) from error
    if len(names) == len(patterns):
        return [topic for _, topic in sorted(named.items())]
    everything = await client.all_topics()
    chosen: dict[str, Topic] = {}
    for pattern in patterns:
        matching = choose_visible(everything, [pattern], internal=False)
        if is_pattern(pattern) and not matching:
            raise NoSuchTopic(f"no topic matches {pattern!r}")
        chosen |= {topic.name: topic for topic in matching}
    return [topic for _, topic in sorted((chosen | named).items())]


def _chosen(topic: Topic, wanted: Sequence[int]) -> list[TopicPartition]:
    count = len(topic.partitions)
    for partition in wanted:
        if partition >= count:
            raise BadSetting(f"topic {topic.name} has no partition {partition}; it has 0 to {count - 1}")
    return [TopicPartition(topic.name, partition) for partition in sorted(set(wanted)) or range(count)]


def _spots(partitions: Sequence[TopicPartition], texts: Sequence[str], default: Spot) -> dict[TopicPartition, Spot]:
    numbers = {partition.partition for partition in partitions}
    spots = parse_spots(texts, numbers, SystemClock().now_ms(), default)
    return {partition: spots[partition.partition] for partition in partitions}


def _layout(options: ConsumeOptions) -> Layout:
    if options.keys + (options.text_format is not None) + options.as_json > 1:
        raise BadOption("give only one of --keys, --format and --json", "--format")
    if options.as_json:
        return JSON_LAYOUT
    if options.text_format is not None:
        return _checked("--format", parse_format, options.text_format)
    end = _checked("--delimiter", unescape, options.delimiter).encode()
    if options.keys:
        return key_value_layout(_checked("--key-separator", unescape, options.key_separator).encode(), end)
    return value_layout(end)


def _checked(option: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except BadFormat as error:
        raise BadOption(str(error), option) from error
