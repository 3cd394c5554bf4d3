"""Messages: each case is one message in one version, as bytes and as JSON."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

from cordwood.wire.codec import decode, encode, encode_parts
from cordwood.wire.frames import (
    decode_coordinator_key,
    decode_coordinator_value,
    decode_metadata_record,
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
)
from cordwood.wire.message_json import message_from_json, message_to_json
from cordwood.wire.messages import index, message_class, request_class
from cordwood.wire.schema import CoordinatorKey, CoordinatorValue, Message, MetadataRecord, Request, Response

from . import Mismatch

SUFFIXES = {"request": "Request", "response": "Response"}


def check(case: dict[str, Any]) -> None:
    cls = message_class(case["api"] + SUFFIXES.get(case["kind"], ""))
    version = case["version"]
    body = bytes.fromhex(case["hex"])
    decoded = decode(cls, version, body)
    check_facts(case, cls, version)
    same("JSON of the decoded message", message_to_json(decoded, version), case["json"])
    same("unknown tagged fields", tags_to_json(decoded.unknown_tags), case.get("unknownTaggedFields", []))
    same("decoded from a view", decode(cls, version, memoryview(body)), decoded)
    same("bytes of the decoded message", encode(decoded, version).hex(), case["hex"])
    built = message_from_json(cls, version, case["json"])
    built.unknown_tags = tags_from_json(case.get("unknownTaggedFields", []))
    same("message built from JSON", built, decoded)
    same("bytes of the message built from JSON", encode(built, version).hex(), case["hex"])
    same("bytes in parts", b"".join(map(bytes, encode_parts(built, version))).hex(), case["hex"])  # type: ignore[arg-type]  # no file ranges here
    if "framedHex" in case:
        check_framed(case, built, version)


def check_facts(case: dict[str, Any], cls: type[Message], version: int) -> None:
    same("flexible", version in cls.flexible_versions, case["flexible"])
    if issubclass(cls, Request | Response):
        same("API key", cls.api_key, case["apiKey"])
        same("header version", cls.header_version(version), case["headerVersion"])
        stable = request_class(cls.api_key).stable_versions
        same("unstable", version not in stable, case.get("unstable", False))


def check_framed(case: dict[str, Any], message: Message, version: int) -> None:
    framed = bytes.fromhex(case["framedHex"])
    cls = type(message)
    if isinstance(message, MetadataRecord):
        same("API key", type(message).api_key, case["apiKey"])
        same("framed bytes", encode_metadata_record(message, version).hex(), case["framedHex"])
        same("framed record read", decode_metadata_record(framed), (message, version))
    elif isinstance(message, CoordinatorKey):
        same("record type", type(message).record_type, case["recordType"])
        same("framed bytes", encode_coordinator_key(message).hex(), case["framedHex"])
        same("framed key read", decode_coordinator_key(coordinator_of(cls), framed), message)
    elif isinstance(message, CoordinatorValue):
        same("record type", type(message).record_type, case["recordType"])
        same("framed bytes", encode_coordinator_value(message, version).hex(), case["framedHex"])
        read = decode_coordinator_value(coordinator_of(cls), case["recordType"], framed)
        same("framed value read", read, (message, version))
    else:
        raise Mismatch(f"{cls.__name__} has framedHex, but no frame is known for it")


def coordinator_of(cls: type[Message]) -> str:
    tables = (index.COORDINATOR_KEYS, index.COORDINATOR_VALUES)
    return next(owner for table in tables for (owner, _), name in table.items() if name == cls.__name__)


def same(what: str, ours: Any, kafkas: Any) -> None:
    if ours != kafkas:
        raise Mismatch(f"{what}: {shorten(ours)}, and Kafka's is {shorten(kafkas)}")


def shorten(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:300]}… ({len(text)} characters)"


def tags_to_json(tags: tuple[tuple[int, bytes], ...]) -> list[dict[str, Any]]:
    return [{"tag": tag, "data": b64encode(data).decode()} for tag, data in tags]


def tags_from_json(tags: list[dict[str, Any]]) -> tuple[tuple[int, bytes], ...]:
    return tuple((entry["tag"], b64decode(entry["data"], validate=True)) for entry in tags)
