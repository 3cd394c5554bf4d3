"""Deleting versions and subjects: first softly, which hides them, then for good."""

from __future__ import annotations

from dataclasses import replace

from .errors import RegistryError, subject_not_found, version_not_found
from .records import Record, SchemaVersion, context_record, schema_key, subject_key
from .registration import check_writable
from .state import State
from .subjects import Subject

Decided = tuple[list[Record], list[int]]
"""Records, and the versions that are deleted."""


def delete_version(state: State, subject: Subject, number: int | None, *, permanent: bool) -> Decided:
    """None is the latest. Raises `RegistryError`."""
    name = subject.qualified
    known = state.subjects.get(name)
    if not known:
        raise subject_not_found(name)
    if number is None:
        latest = state.versions(name, with_deleted=permanent)
        if not latest:
            raise subject_not_found(name)
        number = latest[-1].version
    version = known.get(number)
    if version is None:
        raise version_not_found(number)
    check_writable(state, subject)
    _check_unreferred(state, version)
    if permanent:
        if not version.is_deleted:
            raise RegistryError(
                40407, f"Subject '{name}' Version {number} was not deleted first before being permanently deleted"
            )
        return [*_kept_max_id(state, subject), Record(schema_key(name, number), None)], [number]
    if version.is_deleted:
        raise RegistryError(
            40406, f"Subject '{name}' Version {number} was soft deleted. Set permanent=true to delete permanently"
        )
    records = [replace(version, is_deleted=True).record()]
    if len(state.versions(name)) == 1:
        records += _own_settings(state, name)
    return records, [number]


def delete_subject(state: State, subject: Subject, *, permanent: bool) -> Decided:
    """Raises `RegistryError`."""
    name = subject.qualified
    everything = state.versions(name, with_deleted=True)
    live = state.versions(name)
    if not everything:
        raise subject_not_found(name)
    check_writable(state, subject)
    if permanent and live:
        raise RegistryError(40405, f"Subject '{name}' was not deleted first before being permanently deleted")
    if not permanent and not live:
        raise RegistryError(40404, f"Subject '{name}' was soft deleted. Set permanent=true to delete permanently")
    for version in everything if permanent else live:
        _check_unreferred(state, version)
    if permanent:
        records = [Record(schema_key(name, version.version), None) for version in everything]
        return [*_kept_max_id(state, subject), *records, *_own_settings(state, name)], [
            version.version for version in everything
        ]
    last = everything[-1].version
    record = Record(subject_key("DELETE_SUBJECT", name), {"subject": name, "version": last})
    return [record, *_own_settings(state, name)], [version.version for version in live]


def delete_context(state: State, context: str) -> list[Record]:
    """Raises `RegistryError`."""
    if any(Subject(context, "").qualified and each.startswith(f":{context}:") for each in state.subjects):
        raise RegistryError(42211, f"The specified context '{context}' is not empty.")
    return [Record(context_record(context).key, None)]


def _check_unreferred(state: State, version: SchemaVersion) -> None:
    referrers = state.referrers.get((version.subject, version.version), set())
    live = [key for key in referrers if not state.subjects[key[0]][key[1]].is_deleted]
    if live:
        raise RegistryError(
            42206,
            "One or more references exist to the schema "
            f"{{magic=1,keytype=SCHEMA,subject={version.subject},version={version.version}}}.",
        )


def _kept_max_id(state: State, subject: Subject) -> list[Record]:
    return [context_record(subject.context, state.contexts[subject.context].max_id)]


def _own_settings(state: State, name: str) -> list[Record]:
    records = []
    if name in state.modes:
        records.append(Record(subject_key("MODE", name), None))
    if name in state.configs:
        records.append(Record(subject_key("CONFIG", name), None))
    return records
