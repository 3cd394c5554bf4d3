"""Partitions: where keys, groups and transactional ids belong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cordwood.wire.hashing import murmur2, partition_for_id, partition_for_key, string_hash

from . import Mismatch


def cases(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for case in document.get("murmur2", ()):
        yield f"murmur2 {case['key'] or 'of nothing'}", case
    for case in document.get("coordinator", ()):
        yield f"coordinator {case['id']!r}", case


def check(case: dict[str, Any]) -> None:
    if "key" in case:
        key = bytes.fromhex(case["key"])
        same("hash", murmur2(key), case["hash"])
        for count, partition in case["partition"].items():
            same(f"partition of {count}", partition_for_key(key, int(count)), partition)
        return
    same("hash", string_hash(case["id"]), case["hashCode"])
    for field, partition in case.items():
        if field.startswith("partitionOf"):
            count = int(field.removeprefix("partitionOf"))
            same(f"partition of {count}", partition_for_id(case["id"], count), partition)


def same(what: str, ours: int, kafkas: int) -> None:
    if ours != kafkas:
        raise Mismatch(f"{what}: {ours}, but Kafka has {kafkas}")
