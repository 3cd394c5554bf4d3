"""Options of a write. Names are those of Spark's Kafka connector where it has them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from cordwood.client.errors import BadSetting
from cordwood.client.options.configuration import read_settings
from cordwood.client.producer.settings import ProducerSettings
from cordwood.spark.errors import BadOption
from cordwood.spark.options import Options
from cordwood.spark.registry_access import CONNECTION, RegistryConnection, registry_connection
from cordwood.spark.sink.names import DEFAULT_LEDGER_TOPIC

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"

KNOWN: Final = frozenset(
    {
        *("topic", "guarantee", "ledgerTopic", *CONNECTION),
        *(f"{column}{what}" for column in ("key", "value") for what in ("Format", "Schema", "Subject", "RecordName")),
    }
)
# Spark's own come along with those of a sink; see points.py for the last.
_ALSO_TAKEN = frozenset({"checkpointLocation", "path", "queryName", "testing.at"})

_TIMEOUT = "transaction.timeout.ms"
_TWO_PHASES = "transaction.two.phase.commit.enable"
# The transaction timeout without two-phase commit: from a task's first row until the driver has ended it. Brokers allow
# no more by default (transaction.max.timeout.ms).
_TRANSACTION_TIMEOUT_MS = 15 * 60 * 1000
# A driver that dies between writing its decision and committing it blocks others' decisions for this time.
_LEDGER_TIMEOUT_MS = 10_000
_BULK: Mapping[str, object] = {
    # The size of 10,000 rows of 100 bytes, which Spark passes at once, for each of a few partitions: half of it makes
    # two batches of them, and costs 50 % more CPU.
    "batch.size": 512 * 1024,
    "linger.ms": 0,
    "max.request.size": 1024 * 1024,
    "buffer.memory": 32 * 1024 * 1024,
    "max.in.flight.requests.per.connection": 5,
}


FORMATS: Final = ("avro", "json", "protobuf")


class TypedOptions(NamedTuple):
    """The value, or the key, as a schema of the registry has it."""

    column: str
    format: str
    subject: str
    schema: str | None
    """A text, `latest`, or None: the subject's latest if the columns fit it, else one that is derived from them."""
    record_name: str | None


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Goes with the writer to wherever Spark runs its parts, so it is plain values."""

    topic: str | None
    is_exactly_once: bool
    ledger_topic: str
    client: Mapping[str, object]
    """Settings of the client, by Kafka's names."""
    transaction_timeout_ms: object
    """For transactions of one phase."""
    wants_two_phases: bool | None
    """None: where brokers allow it."""
    testing_at: str | None
    """See points.py."""
    typed: tuple[TypedOptions, ...] = ()
    """Columns that are written by a schema of the registry."""
    registry: RegistryConnection | None = None

    def writing(self, transactional_id: str | None, *, two_phases: bool = False) -> ProducerSettings:
        """For the producer of tasks."""
        more: dict[str, object] = {}
        if transactional_id is not None:
            more = {"transactional.id": transactional_id, _TWO_PHASES: two_phases}
            if not two_phases:
                more[_TIMEOUT] = self.transaction_timeout_ms
        return _settings({**_BULK, **self.client, **more})

    def deciding(self, transactional_id: str) -> ProducerSettings:
        """For the producer of the ledger."""
        without = {name: value for name, value in self.client.items() if name not in _BULK}
        return _settings({**without, "transactional.id": transactional_id, _TIMEOUT: _LEDGER_TIMEOUT_MS})


def read_options(given: Mapping[str, str], purpose: str) -> SinkOptions:
    """Raises `BadOption`."""
    options = Options(given, known=KNOWN | _ALSO_TAKEN, purpose=purpose)
    client = dict(options.client)
    for name, reason in _DECIDED_HERE.items():
        if name in client:
            raise BadOption(f"kafka.{name} cannot be set: {reason}")
    if not client.get("bootstrap.servers"):
        raise BadOption("the option kafka.bootstrap.servers is missing")
    guarantee = options.word("guarantee", (EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE)
    two_phases = client.pop(_TWO_PHASES, None)
    if two_phases is not None and str(two_phases).lower() not in ("true", "false"):
        raise BadOption(f"kafka.{_TWO_PHASES} is {two_phases!r}; expected true or false")
    chosen = SinkOptions(
        topic=options.text("topic"),
        is_exactly_once=guarantee == EXACTLY_ONCE,
        ledger_topic=options.text("ledgerTopic") or DEFAULT_LEDGER_TOPIC,
        client=client,
        transaction_timeout_ms=client.pop(_TIMEOUT, _TRANSACTION_TIMEOUT_MS),
        wants_two_phases=None if two_phases is None else str(two_phases).lower() == "true",
        testing_at=options.text("testing.at"),
        typed=tuple(_typed(options, column) for column in ("key", "value") if f"{column}Format" in options),
        registry=_registry(options),
    )
    # Invalid client settings are reported when the write is planned, and not by its tasks.
    try:
        chosen.writing("any" if chosen.is_exactly_once else None)
    except BadSetting as error:
        raise BadOption(f"in the kafka. options: {error}") from None
    return chosen


def _typed(options: Options, column: str) -> TypedOptions:
    if "registry" not in options:
        raise BadOption(f"{column}Format needs the option registry: the URL of a schema registry")
    return TypedOptions(
        column=column,
        format=options.word(f"{column}Format", FORMATS, FORMATS[0]),
        subject=_subject(options, column),
        schema=options.text(f"{column}Schema"),
        record_name=options.text(f"{column}RecordName"),
    )


def _subject(options: Options, column: str) -> str:
    subject, topic = options.text(f"{column}Subject"), options.text("topic")
    if subject is None and topic is None:
        raise BadOption(f"{column}Format needs the option topic, or {column}Subject: a schema belongs to a subject")
    return subject if subject is not None else f"{topic}-{column}"


def _registry(options: Options) -> RegistryConnection | None:
    for column in ("key", "value"):
        for what in ("Schema", "Subject", "RecordName"):
            if f"{column}{what}" in options and f"{column}Format" not in options:
                raise BadOption(f"{column}{what} is for a column that is written by a schema; set {column}Format")
    return registry_connection(options)


_DECIDED_HERE = {
    "transactional.id": "each task attempt uses its own transaction",
    "enable.idempotence": "every write is idempotent",
    "acks": "every write is acknowledged by all in-sync replicas",
    "key.serializer": "keys are bytes or text",
    "value.serializer": "values are bytes or text",
    "interceptor.classes": "rows are written in bulk",
}


def _settings(options: Mapping[str, Any]) -> ProducerSettings:
    return read_settings(ProducerSettings, options, {})
