"""Records of `_schemas`, as Confluent's registry writes and reads them: JSON texts, with the fields in its order."""

from __future__ import annotations

import hashlib
import json
import struct
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cordwood.registry.schemas.schema import AVRO, Reference

Json = dict[str, Any]

MAX_ID_HEADER = "cordwood-max-id"
"""In a CONTEXT record: the highest id ever assigned in the context. Without it the id of a permanently deleted schema
could be reused, once compaction has removed its records."""


@dataclass(frozen=True, slots=True)
class Record:
    key: Json
    value: Json | None
    headers: Mapping[str, str] = field(default_factory=dict)

    def encoded(self) -> tuple[bytes, bytes | None]:
        return _encoded(self.key), None if self.value is None else _encoded(self.value)


def _encoded(value: Json) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True)
class SchemaVersion:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    schema_type: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    is_deleted: bool = False
    guid: str = ""

    def record(self) -> Record:
        value: Json = {"subject": self.subject, "version": self.version, "id": self.id}
        value["md5"] = uuid.UUID(self.guid).hex
        if self.schema_type != AVRO:
            value["schemaType"] = self.schema_type
        if self.references:
            value["references"] = [reference._asdict() for reference in self.references]
        if self.metadata is not None:
            value["metadata"] = self.metadata
        if self.rule_set is not None:
            value["ruleSet"] = self.rule_set
        return Record(schema_key(self.subject, self.version), value | {"schema": self.text, "deleted": self.is_deleted})

    @classmethod
    def read(cls, value: Json) -> SchemaVersion:
        references = tuple(read_reference(each) for each in value.get("references") or ())
        metadata, rule_set = value.get("metadata"), value.get("ruleSet")
        text = value.get("schema") or ""
        return cls(
            value["subject"],
            value["version"],
            value["id"],
            value.get("schemaType") or AVRO,
            text,
            references,
            metadata,
            rule_set,
            bool(value.get("deleted")),
            guid_of(text, references, metadata, rule_set),
        )


def read_reference(value: Json) -> Reference:
    return Reference(value["name"], value["subject"], value["version"])


def schema_key(subject: str, version: int) -> Json:
    return {"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1}


def subject_key(keytype: str, subject: str | None) -> Json:
    """Returns the key of CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT; without a subject, for all."""
    key: Json = {"keytype": keytype}
    if subject is not None:
        key["subject"] = subject
    return {**key, "magic": 0}


def context_record(context: str, max_id: int | None = None) -> Record:
    named = {"tenant": "default", "context": context}
    headers = {} if max_id is None else {MAX_ID_HEADER: str(max_id)}
    return Record({"keytype": "CONTEXT", **named, "magic": 0}, dict(named), headers)


def guid_of(
    text: str, references: Sequence[Reference], metadata: Json | None = None, rule_set: Json | None = None
) -> str:
    """The same for the same schema in every registry: an MD5 over all its parts, as Confluent's."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for name, subject, version in references:
        digest.update(name.encode() + subject.encode() + struct.pack(">i", version))
    if metadata is not None:
        digest.update(b"\x01")
        tags, properties = metadata.get("tags") or {}, metadata.get("properties") or {}
        for key in sorted(tags):
            digest.update(key.encode())
            for tag in sorted(tags[key]):
                digest.update(tag.encode())
        for key in sorted(properties):
            digest.update(key.encode() + str(properties[key]).encode())
        for name in sorted(metadata.get("sensitive") or ()):
            digest.update(name.encode())
    if rule_set is not None:
        digest.update(b"\x01")
        for rules in ("migrationRules", "domainRules", "encodingRules"):
            for rule in rule_set.get(rules) or ():
                _update_rule(digest, rule)
    return str(uuid.UUID(bytes=digest.digest()))


def _update_rule(digest: Any, rule: Json) -> None:
    for name in ("name", "doc", "kind", "mode", "type"):
        digest.update((rule.get(name) or "").encode())
    for tag in sorted(rule.get("tags") or ()):
        digest.update(tag.encode())
    parameters = rule.get("params") or {}
    for key in sorted(parameters):
        digest.update(key.encode() + str(parameters[key]).encode())
    for name in ("expr", "onSuccess", "onFailure"):
        digest.update((rule.get(name) or "").encode())
    if rule.get("disabled"):
        digest.update(b"\x01")
