"""`cordwood produce`: lines, or JSON, to a topic."""

from collections.abc import Sequence
from contextlib import aclosing
from enum import StrEnum
from typing import Annotated

import typer

from cordwood.cli.access import EXIT_BAD_INPUT, Access, fail, reaching_cluster, run
from cordwood.cli.assignments import parse_pairs
from cordwood.cli.completion import complete_topic
from cordwood.cli.consent import counted
from cordwood.cli.input import Inputs
from cordwood.cli.line_records import LineOptions, json_parser, line_parser
from cordwood.cli.line_sending import LineSending
from cordwood.cli.lines import MAX_LINE_BYTES, LineSplitter, LineTooLong
from cordwood.cli.name_choice import NoSuchName
from cordwood.cli.output import note, warn
from cordwood.cli.progress import Update, progress
from cordwood.cli.record_format import BadFormat, unescape
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.topics import NewTopic
from cordwood.client.cluster import Topic
from cordwood.client.errors import BadSetting, BrokerError, TopicNotFound
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode

app = typer.Typer(add_completion=False)

# Whole chunks of input are at hand: no reason to send less at once than brokers take well.
_BATCH_BYTES = 256 * 1024
_RECORD_OVERHEAD_BYTES = 64 * 1024


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


_ACKS = {Acks.NONE: 0, Acks.LEADER: 1, Acks.ALL: -1}


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
    inputs = _open(files or ["-"])
    sending: LineSending | None = None

    async def work(admin: Admin) -> None:
        nonlocal sending
        if create:
            await _create(admin, topic)
        known = await _known_topic(admin, topic)
        settings = _settings(access, acks, compression, idempotent)
        producer = Producer(settings, settings.bootstrap_servers, network=SocketNetwork())
        await producer.start()
        try:
            sending = LineSending(producer, known, parse, access.timeout_s)
            with progress(topic, inputs.size_bytes, wanted=not quiet and not inputs.is_terminal) as update:
                try:
                    await _send_lines(sending, inputs, splitter, update)
                finally:
                    # What was read is sent, also when the line after it is bad.
                    await sending.flush()
        finally:
            # What is not delivered now is given up.
            await producer.close(0)
        if not quiet:
            note(f"{counted(sending.delivered, 'record')} to {topic}")

    try:
        run(access, work)
    except typer.Exit:
        if sending is not None and not quiet:
            least = "" if sending.is_settled else "at least "
            warn(f"ended early, with {least}{counted(sending.delivered, 'record')} delivered to {topic}")
        raise
    finally:
        inputs.close()


def _settings(access: Access, acks: Acks, compression: Compression, idempotent: bool) -> ProducerSettings:
    timeout_ms = round(access.timeout_s * 1000)
    return access.settings_of(
        ProducerSettings,
        acks=_ACKS[acks],
        compression_type=compression.value,
        enable_idempotence=idempotent and acks is Acks.ALL,
        batch_size=_BATCH_BYTES,
        # How large a record may be is for the broker to say.
        max_request_size=MAX_LINE_BYTES + _RECORD_OVERHEAD_BYTES,
        buffer_memory=MAX_LINE_BYTES + _RECORD_OVERHEAD_BYTES,
        delivery_timeout_ms=timeout_ms,
        # Records that are not delivered make room after that time, and tell why.
        max_block_ms=2 * timeout_ms,
    )


async def _send_lines(sending: LineSending, inputs: Inputs, splitter: LineSplitter, update: Update) -> None:
    input_bytes = 0
    async with aclosing(inputs.chunks()) as chunks:
        try:
            async for chunk in chunks:
                await sending.send(list(splitter.end() if chunk is None else splitter.feed(chunk)))
                input_bytes += len(chunk or b"")
                update(input_bytes, sending.delivered)
        except LineTooLong as error:
            raise BadSetting(f"line {sending.line_number + 1}: {error}") from error
        except OSError as error:
            raise BadSetting(f"cannot read the input: {error.strerror}") from error


async def _known_topic(admin: Admin, topic: str) -> Topic:
    try:
        return (await admin.client.topics([topic]))[topic]
    except TopicNotFound as error:
        known = await admin.list_topics(internal=True)
        raise NoSuchName("topic", topic, known, advice="--create creates it") from error


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
