"""One partition as our log has it once it is open."""

from __future__ import annotations

import re
from typing import Any

from cordwood.cli.dump.describe import describe_batch
from cordwood.cli.dump.index import describe_txn
from cordwood.log.idempotence.producers import Producer
from cordwood.log.log import Log
from cordwood.log.storage import batches
from cordwood.log.storage.index import OffsetIndex
from cordwood.log.storage.segment import Segment, TimestampedOffset
from cordwood.wire.records import CorruptBatch, check_crc, decode_batch

from .files import check_batches, check_records
from .records import consumed_runs, described_records
from .report import Report

T0_MS = 1_700_000_000_000
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_AT = re.compile(r"at(?P<base>T0|\d+)((?P<sign>plus|minus)(?P<count>\d+)(?P<unit>ms|s|min|m|h|d))?")
# One batch at a time, several, all at once.
_FETCH_BYTES = (1, 1_000, 1 << 20)


def check_partition(
    log: Log, partition: dict[str, Any], report: Report, *, recovered_from: int | None, expired_before_ms: int
) -> None:
    """`recovered_from`: from the segment that holds this offset on, the log was recovered, and its indexes recreated.
    A producer whose last batch is older than `expired_before_ms` may be missing from the broker's answer, because it
    forgot it when it started."""
    name, topic = log.directory, partition["topic"]
    stated = partition["segments"] if recovered_from is None else _recovered(partition["segments"], recovered_from)
    report.same(
        f"{name}: segments of the log", [s.base_offset for s in log.segments], [s["baseOffset"] for s in stated]
    )
    for segment, facts in zip(log.segments, stated, strict=False):
        _check_segment(segment, facts, report)
    report.same(f"{name}: logEndOffset", log.end_offset, partition["logEndOffset"])
    check_records(name, list(described_records(log, topic)), partition["records"], report)
    if "live" in partition:
        _check_live(log, partition["live"], report, expired_before_ms=expired_before_ms)
    for key in partition.keys() - _KNOWN_KEYS:
        report.leave_out(f"partitions.*.{key}")


_KNOWN_KEYS = {
    "topic",
    "partition",
    "files",
    "producerSnapshots",
    "metadataSnapshots",
    "segments",
    "logEndOffset",
    "records",
    "live",
    "checkpointHighWatermark",
    "checkpointRecoveryPoint",
    "checkpointLogStart",
    "checkpointCleaner",
}


def _recovered(segments: list[dict[str, Any]], recovery_point: int) -> list[dict[str, Any]]:
    """The segments after recovery: nothing after the first damaged batch."""
    ends = [segment["baseOffset"] for segment in segments[1:]] + [None]
    recovered = []
    for segment, end in zip(segments, ends, strict=True):
        is_walked = end is None or end > recovery_point
        recovered.append(_surviving(segment, segments) if is_walked else segment)
        if is_walked and recovered[-1]["batches"] != segment["batches"]:
            break
    return recovered


def _surviving(segment: dict[str, Any], segments: list[dict[str, Any]]) -> dict[str, Any]:
    """Aborted transactions whose data was compacted away are not found again, and are not needed."""
    valid: list[dict[str, Any]] = []
    for batch in segment["batches"]:
        if not batch["valid"]:
            break
        valid.append(batch)
    end = valid[-1]["position"] + valid[-1]["sizeInBytes"] if valid else 0
    data = [batch for segment in segments for batch in segment["batches"] if not batch.get("isControl")]
    txns = [txn for txn in segment.get("txnindex", []) if any(_is_of(batch, txn) for batch in data)]
    return segment | {"batches": valid, "sizeInBytes": end, "txnindex": txns, "isRebuilt": True}


def _is_of(batch: dict[str, Any], txn: dict[str, Any]) -> bool:
    is_producers = batch.get("producerId") == txn["producerId"]
    return bool(is_producers and txn["firstOffset"] <= batch["baseOffset"] <= txn["lastOffset"])


def _check_segment(segment: Segment, facts: dict[str, Any], report: Report) -> None:
    where = f"{segment.file.path} opened"
    report.same(f"{where}: sizeInBytes", segment.size, facts["sizeInBytes"])
    ours = []
    for position, header, data in batches.whole_batches(segment.file, 0, segment.size):
        first_offset = header.base_offset if header.magic >= 2 else decode_batch(data)[0].offset
        ours.append(describe_batch(header, position, _is_valid(data, header), first_offset))
    check_batches(where, ours, facts["batches"], report)
    # Finds out whether the index can be trusted; one that is padded cannot.
    segment.locate(segment.base_offset)
    offsets = [list(entry) for entry in segment.offset_index.entries()]
    times = [list(entry) for entry in segment.time_index.entries()]
    if facts.get("isRebuilt") or _is_padded(facts):
        _check_rebuilt(where, offsets, times, ours, report)
    else:
        report.same(f"{where}: index", offsets, facts.get("index", []))
        report.same(f"{where}: timeindex", times, facts.get("timeindex", []))
    txns = [describe_txn(txn) for txn in segment.txn_index.entries()]
    report.same(f"{where}: txnindex", txns, facts.get("txnindex", []))


def _is_padded(facts: dict[str, Any]) -> bool:
    return int(facts.get("indexFileBytes") or 0) > len(facts.get("index") or []) * OffsetIndex.ENTRY.size


def _is_valid(data: memoryview, header: Any) -> bool:
    try:
        check_crc(data, header)
    except CorruptBatch:
        return False
    return True


def _check_rebuilt(
    where: str, offsets: list[list[int]], times: list[list[int]], batches: list[dict[str, Any]], report: Report
) -> None:
    """Indexes that recovery made need not have the entries that the broker's had, but must be as true."""
    ends = {batch["position"]: batch["lastOffset"] for batch in batches}
    report.holds(f"{where}: index", all(ends.get(position) == offset for offset, position in offsets))
    timestamps = {batch["lastOffset"]: batch["maxTimestamp"] for batch in batches}
    report.holds(f"{where}: timeindex", all(timestamps.get(offset) == timestamp for timestamp, offset in times))


def _check_live(log: Log, live: dict[str, Any], report: Report, *, expired_before_ms: int) -> None:
    for key, stated in live.items():
        what = f"{log.directory}: live.{key}"
        if key == "earliest":
            report.same(what, log.start_offset, stated)
        elif key == "latest":
            report.same(what, log.high_watermark, stated)
        elif key == "lastStableOffset":
            report.same(what, log.last_stable_offset, stated)
        elif key == "maxTimestamp":
            report.same(what, _found(log.offset_of_max_timestamp()), stated)
        elif match := _AT.fullmatch(key):
            report.same(what, _found(log.offset_for_timestamp(_timestamp(match))), stated)
        elif key == "producers":
            _check_producers(log, stated, report, expired_before_ms=expired_before_ms)
        elif key in ("read_uncommitted", "read_committed"):
            for max_bytes in _FETCH_BYTES:
                _, runs = consumed_runs(log, committed=key == "read_committed", max_bytes=max_bytes)
                report.same(f"{what} by {max_bytes} bytes", runs, stated)
        elif key in ("read_uncommitted_end", "read_committed_end"):
            end, _ = consumed_runs(log, committed=key == "read_committed_end", max_bytes=_FETCH_BYTES[-1])
            report.same(what, end, stated)
        else:
            report.leave_out(f"partitions.*.live.{key}")


def _timestamp(match: re.Match[str]) -> int:
    """`atT0plus20s`, `atT0minus1s`, `at1700000000000`."""
    base = T0_MS if match["base"] == "T0" else int(match["base"])
    if match["sign"] is None:
        return base
    distance = int(match["count"]) * _UNITS_MS[match["unit"]]
    return base + distance if match["sign"] == "plus" else base - distance


def _found(found: TimestampedOffset | None) -> dict[str, int]:
    return {"offset": -1, "timestamp": -1} if found is None else {"offset": found.offset, "timestamp": found.timestamp}


def _check_producers(log: Log, stated: list[dict[str, Any]], report: Report, *, expired_before_ms: int) -> None:
    """Nothing is expired here, so the log has all producers of the broker, and possibly idle ones that it forgot."""
    ours = {producer.producer_id: producer for producer in log.producers.by_id.values()}
    for facts in stated:
        producer = ours.pop(facts["producerId"], None)
        told = None if producer is None else _live_producer(producer)
        report.same(f"{log.directory}: live producer {facts['producerId']}", told, facts)
    for producer in ours.values():
        is_forgotten = producer.txn_first_offset < 0 and producer.last_timestamp <= expired_before_ms
        report.holds(f"{log.directory}: {producer} may have been forgotten", is_forgotten)


def _live_producer(producer: Producer) -> dict[str, Any]:
    return {
        "producerId": producer.producer_id,
        "epoch": producer.epoch,
        "lastSequence": producer.last_sequence,
        "lastTimestamp": producer.last_timestamp,
        "coordinatorEpoch": producer.coordinator_epoch,
        "currentTxnStartOffset": producer.txn_first_offset,
    }
