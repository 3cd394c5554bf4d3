"""Parsed schemas of the state, cached by their content."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from cordwood.registry.schemas.parsing import parse_schema
from cordwood.registry.schemas.schema import InvalidSchema, Reference, Schema

from .records import SchemaVersion, guid_of
from .state import State
from .subjects import Subject, parse_subject, within

_MAX_REFERENCES = 1_000


class ParsedSchemas:
    def __init__(self, capacity: int = 1_000) -> None:
        self._capacity = capacity
        self._cache: OrderedDict[tuple[str, str, str, bool], Schema] = OrderedDict()

    def of(self, state: State, version: SchemaVersion) -> Schema:
        """Raises `InvalidSchema`."""
        return self.parsed(
            state,
            parse_subject(version.subject),
            version.schema_type,
            version.text,
            version.references,
            validate=False,
        )

    def parsed(
        self,
        state: State,
        subject: Subject,
        schema_type: str,
        text: str,
        references: Sequence[Reference],
        *,
        validate: bool,
    ) -> Schema:
        """Raises `InvalidSchema`. References without a context are in that of `subject`."""
        key = (schema_type, subject.context, guid_of(text, references), validate)
        known = self._cache.get(key)
        if known is not None:
            self._cache.move_to_end(key)
            return known
        resolved = _resolved(state, subject, references)
        schema = parse_schema(schema_type, text, tuple(references), resolved, validate=validate)
        self._cache[key] = schema
        if len(self._cache) > self._capacity:
            self._cache.popitem(last=False)
        return schema


def _resolved(state: State, subject: Subject, references: Sequence[Reference]) -> dict[str, str]:
    found: dict[str, str] = {}
    _resolve(state, subject, references, found, [])
    return found


def _resolve(
    state: State, subject: Subject, references: Sequence[Reference], found: dict[str, str], path: list[str]
) -> None:
    for reference in references:
        where = within(reference.subject, subject)
        version = find_version(state, where, reference.version)
        if version is None:
            raise InvalidSchema(
                f"Invalid schema: reference {reference.name!r} not found: no version {reference.version} of subject "
                f"'{where.qualified}'"
            )
        if reference.name in path:
            raise InvalidSchema(f"References are circular: {' -> '.join([*path, reference.name])}")
        if reference.name in found:
            continue
        if len(found) >= _MAX_REFERENCES:
            raise InvalidSchema(f"There are more than {_MAX_REFERENCES} references")
        _resolve(state, where, version.references, found, [*path, reference.name])
        found[reference.name] = version.text


def find_version(state: State, subject: Subject, number: int) -> SchemaVersion | None:
    """Also a deleted one; -1 is the latest."""
    if number == -1:
        return state.latest(subject.qualified)
    return state.subjects.get(subject.qualified, {}).get(number)
