"""The implementation of `cordwood produce`, without typer; produce.py explains the options."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from cordwood.cli.connection.access import (
    ACCESS_SPELLING,
    DEFAULT_TIMEOUT_S,
    EXIT_BAD_INPUT,
    Access,
    BadOption,
    fail,
    run_alone,
)
from cordwood.cli.framework.quick import Spelling
from cordwood.cli.records.line_records import LineOptions, LineParser, json_parser
from cordwood.cli.records.line_sending import JsonSending, LineSending, TextSending
from cordwood.cli.records.record_format import BadFormat, unescape
from cordwood.cli.terminal.input import Inputs
from cordwood.cli.terminal.lines import MAX_LINE_BYTES
from cordwood.cli.terminal.output import counted, note, warn
from cordwood.cli.terminal.progress import Update, progress
from cordwood.client.client import Client
from cordwood.client.cluster import Topic
from cordwood.client.errors import BadSetting, BrokerError, TopicNotFound
from cordwood.client.producer.producer import Producer
from cordwood.client.producer.settings import ProducerSettings
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.errors import ErrorCode

# Input arrives in whole chunks, so send batches as large as brokers handle well.
_BATCH_BYTES = 512 * 1024
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


class ProduceOptions(NamedTuple):
    """The arguments of `cordwood produce`, named as in produce.py."""

    topic: str
    files: Sequence[str] = ()
    key_separator: str | None = None
    key: str | None = None
    headers: Sequence[str] = ()
    partition: int | None = None
    as_json: bool = False
    repartition: bool = False
    null: str | None = None
    delimiter: str = r"\n"
    compression: Compression | None = None
    acks: Acks | None = None
    idempotent: bool | None = None
    create: bool = False
    quiet: bool = False
    registry: str | None = None
    registry_user: str | None = None
    value_schema: str | None = None


SPELLING = Spelling(
    {
        "-K": "key_separator",
        "-k": "key",
        "--header": "headers",
        "-H": "headers",
        "-p": "partition",
        "--json": "as_json",
        "-D": "delimiter",
        "-z": "compression",
        "-a": "acks",
        "-q": "quiet",
    }
    | ACCESS_SPELLING,
    ("topic", "files"),
)


def produce_lines(access: Access, options: ProduceOptions) -> None:
    """Runs the command. Raises `BadOption` before anything is done, or `SystemExit`."""
    constant = _line_options(options)
    delimiter = _text(options.delimiter, "--delimiter")
    if options.value_schema is not None and options.registry is None:
        raise BadOption("needs --registry", "--value-schema")
    encoded = None if options.registry is None else _encoding_parser(options, options.registry, constant)
    inputs = _open(options.files or ["-"])
    sending: LineSending | None = None

    async def work() -> None:
        nonlocal sending
        settings = _settings(access, options)
        if options.create:
            await _create(access, options.topic)
        topic = await _known_topic(settings, options.topic)
        if options.partition is not None:
            _check_partition(topic, options.partition)
        producer = Producer(settings, settings.bootstrap_servers, network=SocketNetwork())
        await producer.start()
        try:
            timeout_s = settings.delivery_timeout_ms / 1000
            if encoded is not None:
                sending = JsonSending(producer, topic, delimiter, timeout_s, encoded)
            elif options.as_json:
                parse = json_parser(constant, repartition=options.repartition)
                sending = JsonSending(producer, topic, delimiter, timeout_s, parse)
            else:
                sending = TextSending(producer, topic, delimiter, timeout_s, constant, SystemClock())
            wanted = not options.quiet and not inputs.is_terminal
            with progress(topic.name, inputs.size_bytes, wanted=wanted) as update:
                try:
                    await _send_lines(sending, inputs, update)
                finally:
                    # Send everything that was read before an invalid line.
                    await sending.flush()
        finally:
            # Give up on records not delivered by now.
            await producer.close(0)
        if not options.quiet:
            note(f"{counted(sending.delivered, 'record')} to {topic.name}")

    try:
        run_alone(work)
    except SystemExit:
        if sending is not None and not options.quiet:
            least = "" if sending.is_settled else "at least "
            warn(f"ended early, with {least}{counted(sending.delivered, 'record')} delivered to {options.topic}")
        raise
    finally:
        inputs.close()


def _encoding_parser(options: ProduceOptions, url: str, constant: LineOptions) -> LineParser:
    from cordwood.cli.schemas.access import registry_client
    from cordwood.cli.schemas.values import encoding_parser, text_parser, value_schema

    schema = value_schema(registry_client(url, options.registry_user), options.topic, options.value_schema)
    parse = json_parser(constant, repartition=options.repartition) if options.as_json else text_parser(constant)
    return encoding_parser(parse, schema)


def _line_options(options: ProduceOptions) -> LineOptions:
    if options.partition is not None and options.partition < 0:
        raise BadOption(f"{options.partition} is not a partition number", "--partition")
    constant = LineOptions(
        key_separator=None if options.key_separator is None else _text(options.key_separator, "--key-separator"),
        key=None if options.key is None else options.key.encode(),
        headers=[_header(text) for text in options.headers],
        partition=options.partition,
        null=None if options.null is None else options.null.encode(),
    )
    if constant.key_separator is not None and (options.key is not None or options.as_json):
        raise BadOption("cannot be combined with --key or --json", "--key-separator")
    return constant


def _header(text: str) -> tuple[str, bytes]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise BadOption(f"{text!r} is not NAME=VALUE", "--header")
    return name, value.encode()


def _settings(access: Access, options: ProduceOptions) -> ProducerSettings:
    asked: dict[str, object] = {}
    if options.acks is not None:
        asked["acks"] = _ACKS[options.acks]
    if options.compression is not None:
        asked["compression_type"] = options.compression.value
    timeout_ms = round((access.timeout_s or DEFAULT_TIMEOUT_S) * 1000)
    # Undelivered records time out after this and report why, which makes room.
    timeouts = {"delivery_timeout_ms": timeout_ms, "max_block_ms": 2 * timeout_ms}
    if access.timeout_s is not None:
        asked |= timeouts
    defaults = timeouts | {
        "batch_size": _BATCH_BYTES,
        # The broker decides how large a record may be.
        "max_request_size": MAX_LINE_BYTES + _RECORD_OVERHEAD_BYTES,
        "buffer_memory": MAX_LINE_BYTES + _RECORD_OVERHEAD_BYTES,
    }
    settings = access.settings_of(ProducerSettings, defaults, **asked)
    if settings.acks != _ACKS[Acks.ALL] or options.idempotent is False:
        settings = replace(settings, enable_idempotence=False)
    return settings


async def _send_lines(sending: LineSending, inputs: Inputs, update: Update) -> None:
    input_bytes = 0
    async with aclosing(inputs.chunks()) as chunks:
        try:
            async for chunk in chunks:
                await (sending.end_file() if chunk is None else sending.feed(chunk))
                input_bytes += len(chunk or b"")
                update(input_bytes, sending.delivered)
        except OSError as error:
            raise BadSetting(f"cannot read the input: {error.strerror}") from error


async def _known_topic(settings: ProducerSettings, name: str) -> Topic:
    client = await Client.connect(settings.bootstrap_servers, settings, network=SocketNetwork())
    async with client:
        try:
            return (await client.topics([name]))[name]
        except TopicNotFound as error:
            from cordwood.cli.framework.name_choice import NoSuchName

            raise NoSuchName("topic", name, await client.all_topics(), advice="use --create to create it") from error


def _check_partition(topic: Topic, partition: int) -> None:
    count = len(topic.partitions)
    if partition >= count:
        raise BadSetting(f"topic {topic.name} has no partition {partition}; it has 0 to {count - 1}")


async def _create(access: Access, topic: str) -> None:
    from cordwood.client.admin.admin import Admin
    from cordwood.client.admin.topics import NewTopic

    async with Admin(access.settings(), network=SocketNetwork()) as admin:
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
        raise BadOption(str(error), option) from error
    if not plain:
        raise BadOption("is empty", option)
    return plain.encode()
