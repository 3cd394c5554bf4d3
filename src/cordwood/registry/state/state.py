"""**State**: the contents of `_schemas`, indexed for look-ups."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from .records import MAX_ID_HEADER, Json, Record, SchemaVersion
from .subjects import DEFAULT_CONTEXT, parse_subject, within

_log = logging.getLogger(__name__)

Value = TypeVar("Value")


class Context:
    """The schemas of one context. Each has its own ids."""

    def __init__(self) -> None:
        self.versions_by_id: dict[int, dict[tuple[str, int], None]] = {}
        self.ids_by_guid: dict[str, int] = {}
        self.max_id = 0

    def copy(self) -> Context:
        made = Context()
        made.versions_by_id = {id_: dict(versions) for id_, versions in self.versions_by_id.items()}
        made.ids_by_guid = dict(self.ids_by_guid)
        made.max_id = self.max_id
        return made


class State:
    def __init__(self) -> None:
        self.subjects: dict[str, dict[int, SchemaVersion]] = {}
        self.contexts: dict[str, Context] = {DEFAULT_CONTEXT: Context()}
        self.configs: dict[str | None, Json] = {}
        self.modes: dict[str | None, str] = {}
        self.referrers: dict[tuple[str, int], set[tuple[str, int]]] = {}
        """Versions that refer to a version."""

    def copy(self) -> State:
        """Versions are shared: they never change."""
        made = State()
        made.subjects = {subject: dict(versions) for subject, versions in self.subjects.items()}
        made.contexts = {name: context.copy() for name, context in self.contexts.items()}
        made.configs = dict(self.configs)
        made.modes = dict(self.modes)
        made.referrers = {key: set(value) for key, value in self.referrers.items()}
        return made

    # ---- replay

    def replay_bytes(self, key: bytes | None, value: bytes | None, headers: Mapping[str, str]) -> None:
        """Applies a stored record. An unreadable one is skipped with a warning, since the rest of the registry is
        fine."""
        try:
            parsed_key = json.loads(key or b"")
            parsed_value = None if not value else json.loads(value)
            self.replay(Record(parsed_key, parsed_value, headers))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _log.warning("Ignoring unreadable record in the schemas topic (key %r): %r", (key or b"")[:200], error)

    def replay(self, record: Record) -> None:
        key, value = record.key, record.value
        match key["keytype"]:
            case "SCHEMA":
                if value is None:
                    self._remove(key["subject"], key["version"])
                else:
                    self._put(SchemaVersion.read(value))
            case "CONFIG":
                _put_or_remove(self.configs, key.get("subject"), value)
            case "MODE":
                mode = None if value is None else value["mode"]
                _put_or_remove(self.modes, key.get("subject"), mode)
            case "DELETE_SUBJECT":
                if value is not None:
                    for version in list(self.subjects.get(value["subject"], {}).values()):
                        if version.version <= value["version"] and not version.is_deleted:
                            self._put(replace(version, is_deleted=True))
            case "CLEAR_SUBJECT":
                if value is not None:
                    for version in list(self.subjects.get(value["subject"], {}).values()):
                        if version.is_deleted:
                            self._remove(version.subject, version.version)
            case "CONTEXT":
                if value is not None:
                    context = self._context(value["context"])
                    context.max_id = max(context.max_id, int(record.headers.get(MAX_ID_HEADER, 0)))

    def _put(self, version: SchemaVersion) -> None:
        self._forget(version.subject, version.version)
        self.subjects.setdefault(version.subject, {})[version.version] = version
        subject = parse_subject(version.subject)
        context = self._context(subject.context)
        context.max_id = max(context.max_id, version.id)
        context.versions_by_id.setdefault(version.id, {})[version.subject, version.version] = None
        context.ids_by_guid.setdefault(version.guid, version.id)
        for reference in version.references:
            referred = (within(reference.subject, subject).qualified, reference.version)
            self.referrers.setdefault(referred, set()).add((version.subject, version.version))

    def _remove(self, subject: str, version: int) -> None:
        self._forget(subject, version)
        versions = self.subjects.get(subject, {})
        versions.pop(version, None)
        if not versions:
            self.subjects.pop(subject, None)

    def _forget(self, subject: str, version: int) -> None:
        """Takes a version out of everything that is looked up, before it changes or goes."""
        known = self.subjects.get(subject, {}).get(version)
        if known is None:
            return
        parsed = parse_subject(subject)
        context = self._context(parsed.context)
        versions = context.versions_by_id[known.id]
        versions.pop((subject, version), None)
        if not versions:
            del context.versions_by_id[known.id]
            if context.ids_by_guid.get(known.guid) == known.id:
                del context.ids_by_guid[known.guid]
        for reference in known.references:
            referred = (within(reference.subject, parsed).qualified, reference.version)
            self.referrers.get(referred, set()).discard((subject, version))

    def _context(self, name: str) -> Context:
        return self.contexts.setdefault(name, Context())

    # ---- look-ups

    def versions(self, subject: str, *, with_deleted: bool = False) -> list[SchemaVersion]:
        """In their order."""
        found = self.subjects.get(subject, {})
        return [found[number] for number in sorted(found) if with_deleted or not found[number].is_deleted]

    def latest(self, subject: str) -> SchemaVersion | None:
        found = self.versions(subject)
        return found[-1] if found else None

    def of_id(self, context: str, id_: int) -> list[SchemaVersion]:
        known = self.contexts.get(context)
        keys = known.versions_by_id.get(id_, {}) if known is not None else {}
        return [self.subjects[subject][version] for subject, version in keys]

    def all_versions(self) -> Iterator[SchemaVersion]:
        for subject in sorted(self.subjects):
            yield from self.versions(subject, with_deleted=True)


def _put_or_remove(into: dict[str | None, Value], subject: str | None, value: Value | None) -> None:
    if value is None:
        into.pop(subject, None)
    else:
        into[subject] = value
