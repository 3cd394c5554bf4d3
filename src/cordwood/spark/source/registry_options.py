"""The options of a read whose keys or values are typed by the schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cordwood.spark.errors import BadOption
from cordwood.spark.options import Options
from cordwood.spark.registry_access import CONNECTION, RegistryConnection, registry_connection

FORMATS: Final = ("avro", "json", "protobuf", "auto")
_TYPES = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
_STRATEGIES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")

_OF_PART = ("Subject", "SchemaVersion", "SchemaId", "ReaderSchema", "RecordName", "Message")
KNOWN = (
    *CONNECTION,
    "subjectNameStrategy",
    "keyFormat",
    *(f"{part}{name}" for part in ("key", "value") for name in _OF_PART),
    "checkpointLocation",
)


@dataclass(frozen=True, slots=True)
class PartOptions:
    """Options of the key or of the value."""

    part: str
    """key or value"""
    schema_type: str | None
    """The registry's name for it; None: whatever is registered."""
    strategy: str = _STRATEGIES[0]
    subject: str | None = None
    version: int | None = None
    """None: the latest."""
    schema_id: int | None = None
    reader_schema: str | None = None
    """The schema itself, as text."""
    record_name: str | None = None
    message: str | None = None
    """The full name of a Protobuf message; None: the first of the file."""


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    connection: RegistryConnection
    parts: tuple[PartOptions, ...]
    mode: str
    """Handling of a record that cannot be decoded."""
    checkpoint: str | None
    """The query's checkpoint, which may have pinned schemas."""


def registry_options(options: Options) -> RegistryOptions | None:
    """None for a read without a registry. Raises `BadOption`."""
    connection = registry_connection(options)
    formats = {part: options.text(f"{part}Format") for part in ("key", "value")}
    if connection is None:
        for name in KNOWN:
            if name in options and name != "checkpointLocation":
                raise BadOption(f"{name} goes with the option registry, the URL of a schema registry")
        if (formats["value"] or "").strip().lower() in ("avro", "protobuf", "auto"):
            raise BadOption(f"valueFormat={formats['value']} needs the option registry, the URL of a schema registry")
        return None
    for name in ("valueSchema", "metadataColumns"):
        if name in options:
            raise BadOption(f"{name} is for valueFormat=json without registry; with it, schemas come from the registry")
    parts = tuple(_part(options, part) for part in ("key", "value") if _is_typed(options, part))
    if not parts:
        raise BadOption(f"registry needs valueFormat or keyFormat; expected {' or '.join(FORMATS)}")
    return RegistryOptions(connection, parts, options.word("mode", MODES, MODES[0]), options.text("checkpointLocation"))


def _is_typed(options: Options, part: str) -> bool:
    if options.word(f"{part}Format", ("bytes", *FORMATS), "bytes") != "bytes":
        return True
    for name in _OF_PART:
        if f"{part}{name}" in options:
            raise BadOption(f"{part}{name} goes with {part}Format={'|'.join(FORMATS)}")
    return False


def _part(options: Options, part: str) -> PartOptions:
    found = PartOptions(
        part=part,
        schema_type=_TYPES.get(options.word(f"{part}Format", FORMATS, "auto")),
        strategy=options.word("subjectNameStrategy", _STRATEGIES, _STRATEGIES[0]),
        subject=options.text(f"{part}Subject"),
        version=_version(options, f"{part}SchemaVersion"),
        schema_id=options.whole_number(f"{part}SchemaId", least=1),
        reader_schema=options.text(f"{part}ReaderSchema"),
        record_name=options.text(f"{part}RecordName"),
        message=options.text(f"{part}Message"),
    )
    chosen = [name for name in ("SchemaVersion", "SchemaId", "ReaderSchema") if f"{part}{name}" in options]
    if len(chosen) > 1:
        raise BadOption(f"{part}{chosen[0]} and {part}{chosen[1]} both choose the reader's schema; give one of them")
    if found.reader_schema is not None and found.schema_type is None:
        raise BadOption(f"{part}ReaderSchema needs {part}Format=avro, json or protobuf, which says what it is")
    if found.message is not None and found.schema_type not in (None, "PROTOBUF"):
        raise BadOption(f"{part}Message goes with {part}Format=protobuf")
    if found.strategy != _STRATEGIES[0] and found.subject is None and found.record_name is None and not chosen:
        raise BadOption(
            f"subjectNameStrategy={found.strategy} needs {part}RecordName, the full name of the record's type, or "
            f"{part}Subject"
        )
    return found


def _version(options: Options, name: str) -> int | None:
    if (options.text(name) or "").strip().lower() == "latest":
        return None
    return options.whole_number(name, least=1)
