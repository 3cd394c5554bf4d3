"""`cordwood produce`: lines, or JSON, to a topic."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import typer

from cordwood.cli.access import EXIT_BAD_INPUT, Access, fail, reaching_cluster, run
from cordwood.cli.assignments import parse_pairs
from cordwood.cli.completion import complete_topic
from cordwood.cli.input import Inputs
from cordwood.cli.line_records import BadLine, LineOptions, LineParser, json_parser, line_parser
from cordwood.cli.lines import LineSplitter, LineTooLong
from cordwood.cli.output import note
from cordwood.cli.progress import Update, progress
from cordwood.cli.record_format import BadFormat, unescape
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.topics import NewTopic
from cordwood.client.batch_producer import ALL_REPLICAS, BatchProducer, ProduceOptions
from cordwood.client.client import Client
from cordwood.client.errors import BadSetting, BrokerError, ClientError
from cordwood.runtime.clock import SystemClock
from cordwood.wire.compression import Codec
from cordwood.wire.errors import ErrorCode

app = typer.Typer(add_completion=False)

# After so many lines of a chunk others have their turn, and what was added is sent.
_LINES_PER_TURN = 2_000


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


_ACKS = {Acks.NONE: 0, Acks.LEADER: 1, Acks.ALL: ALL_REPLICAS}


@dataclass(slots=True)
class _Position:
    """Where in the input we are, for messages and the progress bar."""

    lines: int = 0
    input_bytes: int = 0


@app.command(
    epilog="Examples:\n\n"
    "cordwood produce orders < lines.txt\n\n"
    "echo 'k1:{\"id\": 1}' | cordwood produce orders --key-separator : --compression zstd\n\n"
    "cordwood consume orders --json | cordwood produce copy --create --json --repartition\n\n"
    "find . -print0 | cordwood produce files --delimiter '\\0'"
)
@reaching_cluster
def produce(
    access: Access,
    topic: Annotated[
        str, typer.Argument(help="The topic to write to.", show_default=False, autocompletion=complete_topic)
    ],
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILE", help="What to read; - or nothing is standard input.", show_default=False),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option("--key-separator", "-K", metavar="TEXT", help=r"What stands before it is the key, such as '\t'."),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    headers: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Where to; else by key, or in turns.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Each line is a JSON object, as consume --json prints it.")
    ] = False,
    repartition: Annotated[
        bool, typer.Option("--repartition", help="With --json: pass over the partitions that it names.")
    ] = False,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="A key or value that is this is null (a tombstone).")
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help=r"What ends a record; '\0' for find -print0.")
    ] = r"\n",
    compression: Annotated[
        Compression, typer.Option("--compression", "-z", help="How batches are compressed.")
    ] = Compression.NONE,
    acks: Annotated[
        Acks, typer.Option("--acks", "-a", help="Who must have a record: nobody, its leader, all in sync.")
    ] = Acks.ALL,
    idempotent: Annotated[
        bool, typer.Option("--idempotent/--no-idempotent", help="No record twice after a retry (acks=all only).")
    ] = True,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it does not exist.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no summary.")] = False,
) -> None:
    r"""Write records to a topic, one for each line. Ends with 0 when all of them are acknowledged."""
    constant = LineOptions(
        key_separator=None if key_separator is None else _text(key_separator, "--key-separator"),
        key=None if key is None else key.encode(),
        headers=[(name, value.encode()) for name, value in parse_pairs(headers or [], "--header").items()],
        partition=partition,
        null=None if null is None else null.encode(),
    )
    if constant.key_separator is not None and (key is not None or as_json):
        raise typer.BadParameter("goes with neither --key nor --json", param_hint="--key-separator")
    parse = json_parser(constant, repartition=repartition) if as_json else line_parser(constant)
    splitter = LineSplitter(_text(delimiter, "--delimiter"))
    options = ProduceOptions(
        acks=_ACKS[acks],
        codec=Codec[compression.name],
        idempotent=idempotent and acks is Acks.ALL,
        delivery_timeout_ms=round(access.timeout_s * 1000),
    )
    inputs = _open(files or ["-"])
    position = _Position()

    async def work(admin: Admin) -> None:
        if create:
            await _create(admin, topic)
        producer = await _start(admin.client, topic, options)
        try:
            with progress(topic, inputs.size_bytes, wanted=not quiet and not inputs.is_terminal) as update:
                try:
                    await _send_lines(producer, inputs, splitter, parse, position, update)
                finally:
                    # What was read is sent, also when the line after it is bad.
                    await producer.flush()
        finally:
            await producer.close()
        if not quiet:
            note(f"{producer.delivered:,} records to {topic}")

    try:
        run(access, work)
    finally:
        inputs.close()


async def _send_lines(
    producer: BatchProducer,
    inputs: Inputs,
    splitter: LineSplitter,
    parse: LineParser,
    position: _Position,
    update: Update,
) -> None:
    async with aclosing(inputs.chunks()) as chunks:
        try:
            async for chunk in chunks:
                lines = list(splitter.end() if chunk is None else splitter.feed(chunk))
                for start in range(0, len(lines), _LINES_PER_TURN):
                    _add(producer, lines[start : start + _LINES_PER_TURN], parse, position)
                    await producer.room()
                position.input_bytes += len(chunk or b"")
                update(position.input_bytes, producer.delivered)
        except LineTooLong as error:
            raise BadSetting(f"line {position.lines + 1}: {error}") from error
        except OSError as error:
            raise BadSetting(f"cannot read the input: {error.strerror}") from error


def _add(producer: BatchProducer, lines: Sequence[bytes], parse: LineParser, position: _Position) -> None:
    for line in lines:
        position.lines += 1
        try:
            record = parse(line)
            producer.add(
                record.key, record.value, record.headers, timestamp=record.timestamp, partition=record.partition
            )
        except (BadLine, BadSetting) as error:
            raise BadSetting(f"line {position.lines}: {error}") from error


async def _start(client: Client, topic: str, options: ProduceOptions) -> BatchProducer:
    try:
        return await BatchProducer.start(client, topic, options, SystemClock())
    except BrokerError as error:
        if error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise ClientError(f"there is no topic {topic} (--create creates it)") from error
        raise


async def _create(admin: Admin, topic: str) -> None:
    try:
        await admin.create_topics([NewTopic(topic)])
    except BrokerError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    else:
        await admin.until_topics_led([topic])


def _open(files: Sequence[str]) -> Inputs:
    try:
        return Inputs(files)
    except OSError as error:
        fail(f"{error.filename}: {error.strerror}", EXIT_BAD_INPUT)


def _text(text: str, option: str) -> bytes:
    try:
        plain = unescape(text)
    except BadFormat as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
    if not plain:
        raise typer.BadParameter("is empty", param_hint=option)
    return plain.encode()
