"""Registering and looking up schemas."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from cordwood.registry.schemas.compatibility import violations
from cordwood.registry.schemas.schema import AVRO, InvalidSchema, Reference, Schema

from .errors import RegistryError, invalid_schema, not_permitted
from .records import Json, Record, SchemaVersion, context_record, guid_of
from .schemas import ParsedSchemas
from .scope import config_in_scope, level_of, mode_in_scope, policy_of
from .state import State
from .subjects import Subject

NEW = -1
_MAX_ID = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Submitted:
    """A schema as a client sends it."""

    text: str
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    id: int = NEW
    version: int = 0


@dataclass(frozen=True, slots=True)
class Registered:
    records: Sequence[Record]
    version: SchemaVersion


def look_up(
    state: State, parsed: ParsedSchemas, subject: Subject, submitted: Submitted, *, normalize: bool, with_deleted: bool
) -> SchemaVersion | None:
    """The version that has this schema; the latest, if several have."""
    config = config_in_scope(state, subject)
    schema = _canonical(state, parsed, subject, submitted, normalize=_normalizes(config, normalize), validate=False)
    return _same(state, parsed, subject, submitted, schema, with_deleted=with_deleted)


def register(
    state: State,
    parsed: ParsedSchemas,
    subject: Subject,
    submitted: Submitted,
    *,
    normalize: bool = False,
    force: bool = False,
) -> Registered:
    """Raises `RegistryError`."""
    config, mode = config_in_scope(state, subject), mode_in_scope(state, subject)
    is_import = mode in ("IMPORT", "FORWARD")
    if subject.is_context:
        raise RegistryError(42208, f"The specified subject '{subject.qualified}' is not a valid.")
    check_writable(state, subject)
    if submitted.id >= 0 and mode != "IMPORT":
        raise not_permitted(f"Subject {subject.qualified} in context {subject.context} is not in import mode")
    if submitted.id < 0 and mode == "IMPORT":
        raise not_permitted(f"Subject {subject.qualified} in context {subject.context} is in import mode")
    if submitted.id > _MAX_ID:
        raise invalid_schema(f"id {submitted.id}: ids are from 0 to {_MAX_ID}")
    name = subject.qualified
    previous = state.versions(name)
    if not is_import:
        submitted = _completed(config, submitted, previous)
    schema = _canonical(
        state, parsed, subject, submitted, normalize=_normalizes(config, normalize), validate=submitted.id < 0
    )
    if submitted.version in (0, NEW):
        same = _same(state, parsed, subject, submitted, schema, with_deleted=False)
        if same is not None and submitted.id in (NEW, same.id):
            return Registered((), same)
    if not is_import and not force:
        problems = incompatible_with_previous(state, parsed, config, submitted, schema, previous)
        if problems:
            raise RegistryError(
                40901,
                "Schema being registered is incompatible with an earlier schema for subject "
                f'"{name}", details: [{", ".join(problems)}]',
            )
    version = _new_version(state, subject, submitted, schema, is_import=is_import)
    records = []
    if subject.context not in state.contexts:
        records.append(context_record(subject.context))
    # The same schema, deleted before, lives on in the new version.
    records += [
        Record(old.record().key, None)
        for old in state.versions(name, with_deleted=True)
        if old.is_deleted and old.id == version.id and old.version < version.version and not _is_referred(state, old)
    ]
    return Registered((*records, version.record()), version)


def check_writable(state: State, subject: Subject) -> None:
    if mode_in_scope(state, subject).startswith("READONLY"):
        raise not_permitted(f"Subject {subject.qualified} in context {subject.context} is in read-only mode")


def incompatible_with_previous(
    state: State,
    parsed: ParsedSchemas,
    config: Json,
    submitted: Submitted,
    schema: Schema,
    previous: Sequence[SchemaVersion],
) -> list[str]:
    """Why the schema may not follow `previous`; empty if it may."""
    group = config.get("compatibilityGroup")
    if group is not None:
        wanted = _property(submitted.metadata, group)
        previous = [each for each in previous if _property(each.metadata, group) == wanted]
    level = level_of(config)
    checked = previous if level.is_transitive else previous[-1:]
    try:
        schemas = [parsed.of(state, version) for version in checked]
    except InvalidSchema as error:
        return [f"{{an earlier schema cannot be read: {error}}}"]
    found: list[str] = []
    for version, old in reversed(list(zip(checked, schemas, strict=True))):
        found = violations(level, schema, [old], policy_of(config))
        if found:
            found += [f"{{oldSchemaVersion: {version.version}}}", f"{{oldSchema: '{version.text}'}}"]
            break
    if found:
        found.append(f"{{compatibility: '{level.value}'}}")
    return found


def _completed(config: Json, submitted: Submitted, previous: Sequence[SchemaVersion]) -> Submitted:
    """Adds metadata and rules of the previous version, if the client gives none, and the defaults and overrides of the
    configuration."""
    metadata, rule_set = submitted.metadata, submitted.rule_set
    if previous:
        metadata = metadata if metadata is not None else previous[-1].metadata
        rule_set = rule_set if rule_set is not None else previous[-1].rule_set
    metadata = _merged_metadata(config.get("defaultMetadata"), metadata, config.get("overrideMetadata"))
    rule_set = _merged_rules(config.get("defaultRuleSet"), rule_set, config.get("overrideRuleSet"))
    return replace(submitted, metadata=metadata, rule_set=rule_set)


def _merged_metadata(*layers: Json | None) -> Json | None:
    given = [layer for layer in layers if layer is not None]
    if not given:
        return None
    merged: Json = {}
    for layer in given:
        for name in ("tags", "properties"):
            if layer.get(name) is not None:
                merged[name] = merged.get(name, {}) | layer[name]
        if layer.get("sensitive") is not None:
            merged["sensitive"] = sorted({*merged.get("sensitive", ()), *layer["sensitive"]})
    return merged


def _merged_rules(*layers: Json | None) -> Json | None:
    given = [layer for layer in layers if layer is not None]
    if not given:
        return None
    merged: Json = {}
    for layer in given:
        for name, rules in layer.items():
            if isinstance(rules, list):
                by_name = {rule.get("name"): rule for rule in (*merged.get(name, ()), *rules)}
                merged[name] = list(by_name.values())
            elif rules is not None:
                merged[name] = rules
    return merged


def _normalizes(config: Json, asked: bool) -> bool:
    return asked or bool(config.get("normalize"))


def _canonical(
    state: State, parsed: ParsedSchemas, subject: Subject, submitted: Submitted, *, normalize: bool, validate: bool
) -> Schema:
    if not submitted.text.strip():
        raise invalid_schema("Empty schema")
    try:
        schema = parsed.parsed(
            state, subject, submitted.schema_type, submitted.text, submitted.references, validate=validate
        )
        return schema.normalized() if normalize else schema
    except InvalidSchema as error:
        raise invalid_schema(
            f"Either the input schema or one its references is invalid: {error}, "
            f"schema: {submitted.text[:200]!r} of type {submitted.schema_type}"
        ) from None


def _same(
    state: State,
    parsed: ParsedSchemas,
    subject: Subject,
    submitted: Submitted,
    schema: Schema,
    *,
    with_deleted: bool,
) -> SchemaVersion | None:
    guid = guid_of(schema.canonical, schema.references, submitted.metadata, submitted.rule_set)
    candidates = list(reversed(state.versions(subject.qualified, with_deleted=with_deleted)))
    for version in candidates:
        if version.guid == guid:
            return version
    # A request without metadata or rules matches any; and an older registry may have stored them with another layout.
    for version in candidates:
        if version.schema_type != schema.type or not _is_meant(submitted, version):
            continue
        try:
            stored = parsed.of(state, version)
            if stored.canonical == schema.canonical and tuple(stored.references) == tuple(schema.references):
                return version
            if schema.type == AVRO and not schema.references and stored.formatted("resolved") == schema.canonical:
                return version
        except InvalidSchema:
            continue
    return None


def _is_meant(submitted: Submitted, version: SchemaVersion) -> bool:
    return (submitted.metadata is None or _equal(submitted.metadata, version.metadata)) and (
        submitted.rule_set is None or _equal(submitted.rule_set, version.rule_set)
    )


def _equal(one: Json | None, other: Json | None) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _new_version(
    state: State, subject: Subject, submitted: Submitted, schema: Schema, *, is_import: bool
) -> SchemaVersion:
    known = state.versions(subject.qualified, with_deleted=True)
    following = known[-1].version + 1 if known else 1
    number = submitted.version if submitted.version > 0 else following
    if number != following and not is_import:
        raise invalid_schema(f"Version is not one more than previous version: {number}, but {following} comes next")
    references = tuple(schema.references)
    text = schema.canonical
    guid = guid_of(text, references, submitted.metadata, submitted.rule_set)
    context = state.contexts.get(subject.context)
    if submitted.id >= 0:
        id_ = submitted.id
        holders = state.of_id(subject.context, id_)
        if holders and holders[0].guid != guid:
            raise not_permitted(f"Overwrite new schema with id {id_} is not permitted.")
    else:
        known_id = None if context is None else context.ids_by_guid.get(guid)
        id_ = known_id if known_id is not None else (0 if context is None else context.max_id) + 1
    return SchemaVersion(
        subject.qualified,
        number,
        id_,
        schema.type,
        text,
        references,
        submitted.metadata,
        submitted.rule_set,
        guid=guid,
    )


def _property(metadata: Json | None, name: str) -> str | None:
    return None if metadata is None else (metadata.get("properties") or {}).get(name)


def _is_referred(state: State, version: SchemaVersion) -> bool:
    return bool(state.referrers.get((version.subject, version.version)))
