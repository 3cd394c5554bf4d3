"""**PinnedSchema**: the reader's schema of a query, chosen when its table is made, and kept in its checkpoint.

Its position in the registry is kept among the offsets, which a Python source writes to a checkpoint: `{"orders": {"0":
12}, "registry schemas": {"value": {"subject": "orders-value", "version": 1, "id": 7}}}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cordwood.registry.client import RegisteredSchema, RegistryRefused
from cordwood.registry.columns.avro_types import Untypable
from cordwood.registry.columns.decoder import ColumnDecoder, UnknownSchema
from cordwood.registry.columns.planning import plan_for
from cordwood.registry.columns.plans import Plan
from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.schema import InvalidSchema, Schema
from cordwood.registry.serializers.strategies import record_subject, topic_record_subject, topic_subject
from cordwood.runtime.blocking_http import Unreachable
from cordwood.spark.errors import BadOption, CannotRead
from cordwood.spark.registry_access import RegistryConnection, client_of
from cordwood.spark.source.offsets import SCHEMAS
from cordwood.spark.source.registry_options import PartOptions, RegistryOptions
from cordwood.spark.source.topics import TopicChoice

_NO_SUCH = (40401, 40402, 40403)


@dataclass(frozen=True, slots=True)
class PinnedSchema:
    part: str
    """key or value"""
    subject: str = ""
    version: int = 0
    id: int = 0
    given: tuple[str, str] | None = None
    """For a schema from an option: its type and text. It is neither in the registry nor in checkpoints."""
    message: str | None = None

    def reads_as(self, other: PinnedSchema) -> bool:
        return (self.id, self.given, self.message) == (other.id, other.given, other.message)

    def __str__(self) -> str:
        if self.given is not None:
            return f"{self.part}ReaderSchema"
        return f"version {self.version} of {self.subject} (id {self.id})" if self.version else f"schema {self.id}"


PinnedSchemas = tuple[PinnedSchema, ...]


def pin(options: RegistryOptions, topics: TopicChoice) -> PinnedSchemas:
    """Asks the registry. Raises `BadOption` or `CannotRead`."""
    return tuple(_pin(options.connection, part, topics) for part in options.parts)


def _pin(connection: RegistryConnection, part: PartOptions, topics: TopicChoice) -> PinnedSchema:
    if part.reader_schema is not None:
        assert part.schema_type is not None
        return PinnedSchema(part.part, given=(part.schema_type, part.reader_schema), message=part.message)
    subjects = _subjects(part, topics)
    if part.schema_id is not None:
        subject = part.subject or ""
        found = _asked(f"schema {part.schema_id}", lambda: client_of(connection).by_id(_known(part.schema_id), subject))
        pinned = PinnedSchema(part.part, subject, 0, part.schema_id, message=part.message)
    else:
        pins = {subject: _registered(connection, part, subject) for subject in subjects}
        if len({each.id for each in pins.values()}) > 1:
            raise BadOption(
                f"the topics have {part.part}s of different schemas: "
                + ", ".join(f"{subject} has schema {each.id}" for subject, each in pins.items())
                + f"; choose one with {part.part}Subject or {part.part}SchemaId"
            )
        subject, found = next(iter(pins.items()))
        pinned = PinnedSchema(part.part, subject, found.version or 0, found.id, message=part.message)
    if part.schema_type not in (None, found.schema.type):
        raise BadOption(f"{part.part}Format does not fit: {pinned} is {found.schema.type}")
    return pinned


def _known(id_: int | None) -> int:
    assert id_ is not None
    return id_


def _subjects(part: PartOptions, topics: TopicChoice) -> list[str]:
    if part.subject is not None:
        return [part.subject]
    if part.strategy == "RecordNameStrategy":
        return [record_subject(part.record_name or "")]
    names = topics.names or tuple(sorted({partition.topic for partition in topics.assigned}))
    if not names and part.schema_id is None:
        raise BadOption(f"subscribePattern needs {part.part}Subject, the subject of the reader's schema")
    if part.strategy == "TopicRecordNameStrategy":
        return [topic_record_subject(name, part.record_name or "") for name in names]
    return [topic_subject(name, is_key=part.part == "key") for name in names]


def _registered(connection: RegistryConnection, part: PartOptions, subject: str) -> RegisteredSchema:
    client = client_of(connection)
    if part.version is None:
        return _asked(f"the {part.part}s' schema, subject {subject}", lambda: client.latest(subject))
    version = part.version
    return _asked(f"version {version} of {subject}", lambda: client.version(subject, version))


def _asked(what: str, ask: Callable[[], RegisteredSchema]) -> RegisteredSchema:
    """Raises `CannotRead`."""
    try:
        return ask()
    except RegistryRefused as refused:
        raise CannotRead(f"{what}: the registry says: {refused}") from None
    except InvalidSchema as error:
        raise CannotRead(f"{what} cannot be read: {error}") from None
    except (Unreachable, ValueError) as error:
        raise CannotRead(f"{what}: the registry cannot be reached: {error}") from None


# ---- in checkpoints


def pins_to_json(pins: PinnedSchemas) -> dict[str, Any]:
    """Empty without a schema of the registry."""
    kept = {each.part: _pin_to_json(each) for each in pins if each.given is None}
    return {SCHEMAS: kept} if kept else {}


def _pin_to_json(pin: PinnedSchema) -> dict[str, Any]:
    told: dict[str, Any] = {"subject": pin.subject, "version": pin.version, "id": pin.id}
    return told if pin.message is None else {**told, "message": pin.message}


def pins_from_json(told: Mapping[str, Any]) -> PinnedSchemas:
    return tuple(PinnedSchema(part, **found) for part, found in sorted(told.get(SCHEMAS, {}).items()))


def pins_in_checkpoint(location: str, pins: PinnedSchemas) -> PinnedSchemas:
    """Replaces schemas with those pinned in this checkpoint for the same subjects. Raises `CannotRead`."""
    kept = {(pin.part, pin.subject, pin.message): pin for pin in _in_offsets(location)}
    return tuple(kept.get((pin.part, pin.subject, pin.message), pin) for pin in pins)


def _in_offsets(location: str) -> Iterable[PinnedSchema]:
    """The offsets of the last planned batch: the file has a line for each source of the query, after two of Spark's."""
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import fs

    try:
        system, path = fs.FileSystem.from_uri(location) if "://" in location else (fs.LocalFileSystem(), location)
        path = path.removeprefix("file:")
        selector = fs.FileSelector(f"{path.rstrip('/')}/offsets", allow_not_found=True)
        batches = [found for found in system.get_file_info(selector) if found.base_name.isdigit()]
        if not batches:
            return []
        last = max(batches, key=lambda found: int(found.base_name))
        with system.open_input_stream(last.path) as stream:
            lines = stream.read().decode().splitlines()
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise CannotRead(f"checkpointLocation {location} cannot be read: {error}") from None
    return [pin for line in lines[2:] if line.startswith("{") for pin in pins_from_json(_parsed(line))]


def _parsed(line: str) -> dict[str, Any]:
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


# ---- in each process


@lru_cache(64)
def decoder_of(connection: RegistryConnection, pin: PinnedSchema) -> ColumnDecoder:
    """Raises `BadOption` or `CannotRead`."""
    client = client_of(connection)

    def by_id(id_: int) -> Schema:
        return _known_to_registry(lambda: client.by_id(id_, pin.subject).schema)

    def by_guid(guid: str) -> Schema:
        return _known_to_registry(lambda: client.by_guid(guid).schema)

    return ColumnDecoder(plan_of(connection, pin), by_id, by_guid)


def _known_to_registry(ask: Callable[[], Schema]) -> Schema:
    """Raises `UnknownSchema`, or `CannotRead` if the registry cannot answer."""
    try:
        return ask()
    except RegistryRefused as refused:
        if refused.code in _NO_SUCH:
            raise UnknownSchema(f"its schema is not in the registry: {refused}") from None
        raise CannotRead(f"the registry says: {refused}") from None
    except Unreachable as error:
        raise CannotRead(f"the registry cannot be reached: {error}") from None


def plan_of(connection: RegistryConnection, pin: PinnedSchema) -> Plan:
    """Raises `BadOption` or `CannotRead`."""
    try:
        return plan_for(_schema(connection, pin), pin.message)
    except Untypable as error:
        raise BadOption(f"{pin} cannot be read as columns: {error}") from None


def _schema(connection: RegistryConnection, pin: PinnedSchema) -> Schema:
    if pin.given is None:
        return _asked(f"schema {pin.id}", lambda: client_of(connection).by_id(pin.id, pin.subject)).schema
    try:
        return parse_schema(*pin.given)
    except InvalidSchema as error:
        raise BadOption(f"{pin.part}ReaderSchema cannot be used: {error}") from None
