"""The options of the source, checked; by the names of Spark's Kafka connector where it has them."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadSetting
from cordwood.client.offsets import EARLIEST, LATEST
from cordwood.client.options.configuration import read_settings
from cordwood.spark.errors import BadOption
from cordwood.spark.local_master import told_cores
from cordwood.spark.options import Options
from cordwood.spark.source.admission import DEFAULT_MAX_TRIGGER_DELAY_MS, ReadLimits
from cordwood.spark.source.offsets import Edge, OffsetsOption, read_edge
from cordwood.spark.source.ranges import TaskLimits
from cordwood.spark.source.registry_options import KNOWN as REGISTRY_OPTIONS
from cordwood.spark.source.registry_options import MODES, RegistryOptions, registry_options
from cordwood.spark.source.topics import TopicChoice, read_choice

_log = logging.getLogger(__name__)

DEFAULT_MAX_BYTES_PER_BATCH = 8 * 1024 * 1024
DEFAULT_POLL_TIMEOUT_MS = 120_000

_ENDING = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_TRIGGER = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger", "maxTriggerDelay", "commitGroup")
# Options of the connector that have another equivalent here.
_NO_EFFECT = {
    "fetchOffset.numRetries": "calls are retried until kafka.default.api.timeout.ms is over",
    "fetchOffset.retryIntervalMs": "calls are retried after kafka.retry.backoff.ms",
    "groupIdPrefix": "no consumer group is joined",
}
KNOWN = (
    "subscribe",
    "subscribePattern",
    "assign",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    *_ENDING,
    *_TRIGGER,
    "minPartitions",
    "maxRecordsPerPartition",
    "maxBytesPerBatch",
    "failOnDataLoss",
    "includeHeaders",
    "isolation",
    "kafkaConsumer.pollTimeoutMs",
    *_NO_EFFECT,
    "valueFormat",
    "valueSchema",
    "metadataColumns",
    "mode",
    *REGISTRY_OPTIONS,
)

# Settings that Spark controls, or that have no meaning for it: the connector rejects these, too.
_FORBIDDEN_SETTINGS = {
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "progress is kept in Spark's checkpoint; commitGroup also commits it to a group",
    "interceptor.classes": "interceptors are not supported in Spark",
    "key.deserializer": "keys are bytes; cast them in Spark",
    "value.deserializer": "values are bytes; cast them in Spark, or set valueFormat",
}


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The conversion of values."""

    name: str = "bytes"
    """bytes: a column of that; json: a column for each field of the schema."""
    schema: str | None = None
    """As text, for queries without `.schema(...)`."""
    metadata_columns: tuple[str, ...] | None = None
    mode: str = "PERMISSIVE"
    """Handling of a value that does not parse: PERMISSIVE, DROPMALFORMED, FAILFAST."""


@dataclass(frozen=True, slots=True)
class SourceOptions:
    client: Mapping[str, object]
    """Settings by Kafka's names."""
    topics: TopicChoice
    starting: OffsetsOption
    ending: OffsetsOption
    limits: ReadLimits
    tasks: TaskLimits
    max_bytes_per_batch: int
    fail_on_data_loss: bool
    include_headers: bool
    read_committed: bool
    poll_timeout_ms: int
    commit_group: str | None
    value_format: ValueFormat
    registry: RegistryOptions | None
    """Types keys or values; `value_format` is bytes then."""


def batch_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises `BadOption`."""
    options = Options(given, known=KNOWN, purpose="a read")
    for name in _TRIGGER:
        if name in options:
            _log.warning("%s has no effect in a batch read", name)
    starting = read_edge(options, Edge.STARTING, default=EARLIEST, forbidden=LATEST)
    return _options(options, starting, read_edge(options, Edge.ENDING, default=LATEST, forbidden=EARLIEST))


def stream_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises `BadOption`."""
    options = Options(given, known=KNOWN, purpose="a read")
    for name in _ENDING:
        if name in options:
            raise BadOption(f"{name} is for batch reads; a stream has no end")
    starting = read_edge(options, Edge.STARTING, default=LATEST, forbidden=None)
    return _options(options, starting, OffsetsOption("endingOffsets", Edge.ENDING, LATEST))


def read_options(given: Mapping[str, str]) -> SourceOptions:
    """For callers that do not know yet whether it is a batch or a stream."""
    is_batch = any(name in Options(given, known=KNOWN, purpose="a read") for name in _ENDING)
    return batch_options(given) if is_batch else stream_options(given)


def _options(options: Options, starting: OffsetsOption, ending: OffsetsOption) -> SourceOptions:
    for name, reason in _NO_EFFECT.items():
        if name in options:
            _log.warning("%s has no effect: %s", name, reason)
    registry = registry_options(options)
    return SourceOptions(
        client=_client_settings(options),
        topics=read_choice(options),
        starting=starting,
        ending=ending,
        limits=_limits(options),
        tasks=TaskLimits(
            options.whole_number("minPartitions", least=1),
            options.whole_number("maxRecordsPerPartition", least=1),
            told_cores(),
        ),
        max_bytes_per_batch=options.whole_number("maxBytesPerBatch", least=1) or DEFAULT_MAX_BYTES_PER_BATCH,
        fail_on_data_loss=options.boolean("failOnDataLoss", True),
        include_headers=options.boolean("includeHeaders", False),
        read_committed=_isolation(options) == "read_committed",
        poll_timeout_ms=options.whole_number("kafkaConsumer.pollTimeoutMs", least=1) or DEFAULT_POLL_TIMEOUT_MS,
        commit_group=options.text("commitGroup"),
        value_format=_value_format(options) if registry is None else ValueFormat(),
        registry=registry,
    )


def _client_settings(options: Options) -> Mapping[str, object]:
    settings = {name: value for name, value in options.client.items() if name != "isolation.level"}
    if not settings.get("bootstrap.servers"):
        raise BadOption('kafka.bootstrap.servers is missing; expected "host:port", or several separated by commas')
    for name, reason in _FORBIDDEN_SETTINGS.items():
        if name in settings:
            raise BadOption(f"kafka.{name} cannot be set: {reason}")
    if "group.id" in settings:
        _log.warning("kafka.group.id has no effect: no group is joined; use commitGroup to publish progress")
    try:
        read_settings(ConsumerSettings, settings, {})
    except BadSetting as error:
        raise BadOption(f"in the kafka. options: {error}") from None
    return settings


def _limits(options: Options) -> ReadLimits:
    limits = ReadLimits(
        max_offsets=options.whole_number("maxOffsetsPerTrigger", least=1),
        min_offsets=options.whole_number("minOffsetsPerTrigger", least=1),
        max_bytes=options.whole_number("maxBytesPerTrigger", least=1),
        max_trigger_delay_ms=options.duration_ms("maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
    )
    if limits.max_offsets is not None and limits.min_offsets is not None and limits.min_offsets > limits.max_offsets:
        raise BadOption(
            f"minOffsetsPerTrigger is {limits.min_offsets}, which is more than maxOffsetsPerTrigger, "
            f"{limits.max_offsets}"
        )
    return limits


def _isolation(options: Options) -> str:
    levels = ("read_committed", "read_uncommitted")
    isolation = options.word("isolation", levels, levels[0])
    level = options.client.get("isolation.level")
    if level is None:
        return isolation
    if level not in levels:
        raise BadOption(f"kafka.isolation.level is {level!r}; expected {' or '.join(levels)}")
    if "isolation" in options and level != isolation:
        raise BadOption(f"isolation is {isolation}, but kafka.isolation.level is {level}; give one of them")
    return str(level)


def _value_format(options: Options) -> ValueFormat:
    chosen = options.text("metadataColumns")
    columns = None if chosen is None else tuple(name.strip() for name in chosen.split(",") if name.strip())
    given = ValueFormat(
        name=options.word("valueFormat", ("bytes", "json"), "bytes"),
        schema=options.text("valueSchema"),
        metadata_columns=columns,
        mode=options.word("mode", MODES, MODES[0]),
    )
    if given.name == "bytes":
        for name in ("valueSchema", "metadataColumns", "mode"):
            if name in options:
                raise BadOption(f"{name} goes with valueFormat=json")
    return given
