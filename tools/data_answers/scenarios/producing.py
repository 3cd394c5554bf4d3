"""Produce: what is taken and what is refused."""

from __future__ import annotations

import struct

from crc32c import crc32c

from cordwood.wire.compression import Codec
from cordwood.wire.messages.produce import ProduceRequest
from data_answers.asking import Asking
from data_answers.batches import NOW, batch
from data_answers.requests import PRODUCE_VERSIONS, Place, fetch, produce, produce_all

_DAY_MS = 86_400_000
_VERSION = 12


async def producing(ask: Asking) -> None:
    topic_id = await ask.create("p", 2)
    for version in PRODUCE_VERSIONS:
        await ask("one record", produce(topic_id if version >= 13 else "p", batch("a")), version)
        unknown: str | bytes = b"\x01" * 16 if version >= 13 else "none"
        await ask("an unknown topic", produce(unknown, batch("a")), version)
        await ask("corrupt", produce(topic_id if version >= 13 else "p", _flipped(batch("a"))), version)
    for acks in (1, -1, 2, -2, 5):
        await ask(f"acks {acks}", produce("p", batch("a"), acks=acks), _VERSION)
    await ask("an unknown partition", produce("p", batch("a"), partition=7), _VERSION)
    await ask("a negative partition", produce("p", batch("a"), partition=-1), _VERSION)
    await ask("the zero id", produce(bytes(16), batch("a")), 13)
    await ask("a name that no topic may have", produce("a b", batch("a")), _VERSION)
    await ask("no time", produce("p", batch("a"), timeout_ms=0), _VERSION)
    await ask("negative time", produce("p", batch("a"), timeout_ms=-5), _VERSION)
    await ask("nothing at all", ProduceRequest(acks=-1, timeout_ms=1000), _VERSION)
    several: dict[Place, bytearray] = {
        ("p", 0): batch("a"),
        ("none", 0): batch("a"),
        ("p", 1): batch("b"),
        ("p", 5): batch("c"),
    }
    await ask("several", produce_all(several), _VERSION)
    # Kafka silently drops the first of two batches for one partition in a request; Cordwood takes both.

    # Kafka never answers to null in place of records.
    await ask("empty records", produce("p", b""), _VERSION)
    await ask("two batches", produce("p", batch("a") + batch("b")), _VERSION)
    await ask("a batch and a bit", produce("p", batch("a") + batch("b")[:20]), _VERSION)
    await ask("a batch cut short", produce("p", batch("a")[:-1]), _VERSION)
    await ask("half a header", produce("p", batch("a")[:30]), _VERSION)
    await ask("a few bytes", produce("p", batch("a")[:5]), _VERSION)
    await ask("no records in the batch", produce("p", _emptied(batch("a"))), _VERSION)
    await ask("a wrong count", produce("p", _with(batch("a", "b"), 57, ">i", 3)), _VERSION)
    await ask("a wrong last offset", produce("p", _with(batch("a", "b"), 23, ">i", 5)), _VERSION)
    await ask("magic 1", produce("p", _with(batch("a"), 16, ">b", 1)), _VERSION)
    await ask("magic 3", produce("p", _with(batch("a"), 16, ">b", 3)), _VERSION)
    await ask("a length that lies", produce("p", _with(batch("a"), 8, ">i", 500)), _VERSION)
    await ask("a negative length", produce("p", _with(batch("a"), 8, ">i", -5)), _VERSION)
    await ask("an offset of its own", produce("p", batch("a", base_offset=77)), _VERSION)
    await ask("a control batch", produce("p", batch("a", control=True)), _VERSION)
    # An unknown codec is UNKNOWN_SERVER_ERROR to Kafka, and INVALID_RECORD to Cordwood.
    await ask("log append time of its own", produce("p", _with(batch("a"), 21, ">h", 8)), _VERSION)
    for codec in (Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD):
        await ask.all_versions(f"{codec.name}", produce("p", batch("a" * 50, codec=codec)), (3, 6, 7, 12))
    await ask("what it has", fetch({("p", 0): 60}, max_bytes=300), 12)

    await ask(
        "in no transaction", produce("p", batch("a", producer_id=7, epoch=0, sequence=0, transactional=True)), _VERSION
    )
    await ask("a transactional id for nothing", produce("p", batch("a"), transactional_id="t"), _VERSION)
    await ask.closes("acks 0", produce("p", batch("a"), acks=0), _VERSION, no_answer=True)
    await ask.closes("acks 0, refused", produce("p", _flipped(batch("a")), acks=0), _VERSION, no_answer=True)
    await ask.closes("acks 0, unknown", produce("none", batch("a"), acks=0), _VERSION, no_answer=True)
    await ask.closes("acks 0, nothing", ProduceRequest(acks=0, timeout_ms=1000), _VERSION, no_answer=True)


async def produce_configs(ask: Asking) -> None:
    """Produce requests under various topic configurations."""
    await ask.create("small", 1, max_message_bytes="200")
    await ask("fits", produce("small", batch("a" * 100)), _VERSION)
    await ask("too large", produce("small", batch("a" * 200)), _VERSION)
    await ask("too large by name alone", produce("small", batch("a" * 200, codec=Codec.GZIP)), _VERSION)
    await ask.create("compacted", 1, cleanup_policy="compact")
    await ask("no key", produce("compacted", batch("a", "b", "c", keys=["k", None, None])), _VERSION)
    await ask("no key, before record errors", produce("compacted", batch("a")), 7)
    await ask("with keys", produce("compacted", batch("a", keys=["k"])), _VERSION)
    await ask.create("stamped", 1, message_timestamp_type="LogAppendTime")
    await ask("stamped by the broker", produce("stamped", batch("a")), _VERSION)
    limits = {"message_timestamp_before_max_ms": str(_DAY_MS), "message_timestamp_after_max_ms": str(_DAY_MS)}
    await ask.create("timely", 1, **limits)
    await ask("too old", produce("timely", batch("a", "b", timestamps=[1, 2])), _VERSION)
    await ask("too young", produce("timely", batch("a", timestamps=[2**52])), _VERSION)
    await ask("no time", produce("timely", batch("a", timestamps=[-1])), _VERSION)
    await ask.create("gzipped", 1, compression_type="gzip")
    await ask("compressed by the broker", produce("gzipped", batch("a" * 200)), _VERSION)
    await ask.create("strict", 1, min_insync_replicas="2")
    await ask("too few replicas", produce("strict", batch("a")), _VERSION)
    await ask("too few replicas, acks 1", produce("strict", batch("a"), acks=1), _VERSION)
    assert NOW


def _flipped(records: bytearray) -> bytearray:
    records[-1] ^= 1
    return records


def _with(records: bytearray, position: int, form: str, value: int) -> bytearray:
    """With one field of the header changed, and the checksum to match."""
    struct.pack_into(form, records, position, value)
    struct.pack_into(">I", records, 17, crc32c(memoryview(records)[21:]))
    return records


def _emptied(records: bytearray) -> bytearray:
    del records[61:]
    struct.pack_into(">i", records, 8, len(records) - 12)
    struct.pack_into(">i", records, 23, -1)
    return _with(records, 57, ">i", 0)
