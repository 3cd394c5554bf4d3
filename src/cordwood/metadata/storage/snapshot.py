"""Snapshot files: `{offset}-{epoch}.checkpoint`, a header, an image's records, and a footer.

They are record batches as in the log, with separate offsets. The header's batch also has the quorum's voters, unless
they are configured statically (kraft.version 0). `bootstrap.checkpoint` has the same format.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.metadata.image import OffsetAndEpoch
from cordwood.metadata.versions import record_version
from cordwood.wire.batch_header import BatchHeader, batch_headers, check_crc, whole_batches_length
from cordwood.wire.codec import decode, encode
from cordwood.wire.control import ControlType, control_batch, parse_control_type
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.frames import decode_metadata_record, encode_metadata_record
from cordwood.wire.messages.data.kraft_version_record import KRaftVersionRecord
from cordwood.wire.messages.data.snapshot_footer_record import SnapshotFooterRecord
from cordwood.wire.messages.data.snapshot_header_record import SnapshotHeaderRecord
from cordwood.wire.messages.data.voters_record import VotersRecord
from cordwood.wire.record import CorruptBatch, InvalidRecord, Record
from cordwood.wire.records import decode_batch, encode_batch
from cordwood.wire.schema import MetadataRecord

CHECKPOINT = ".checkpoint"
# As Kafka's `internal.metadata.max.batch.size.in.bytes`.
MAX_BATCH_BYTES = 8 * 1024 * 1024

_NAMED = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


@dataclass(frozen=True, slots=True)
class QuorumVoters:
    """The quorum's voters from control records; None if they are configured."""

    kraft_version: int = 0
    voters: VotersRecord | None = None

    def after(self, control_type: ControlType | None, value: bytes) -> "QuorumVoters":
        if control_type is ControlType.KRAFT_VERSION:
            return QuorumVoters(decode(KRaftVersionRecord, 0, value).k_raft_version, self.voters)
        if control_type is ControlType.KRAFT_VOTERS:
            return QuorumVoters(self.kraft_version, decode(VotersRecord, 0, value))
        return self

    def control_records(self) -> list[tuple[ControlType, bytes]]:
        if self.kraft_version == 0 or self.voters is None:
            return []
        version = KRaftVersionRecord(version=0, k_raft_version=self.kraft_version)
        return [
            (ControlType.KRAFT_VERSION, encode(version, 0)),
            (ControlType.KRAFT_VOTERS, encode(self.voters, 0)),
        ]


CONFIGURED_VOTERS = QuorumVoters()


@dataclass(frozen=True, slots=True)
class Snapshot:
    records: list[MetadataRecord]
    # The timestamp of the last log record that it contains.
    last_timestamp_ms: int
    quorum: QuorumVoters


def snapshot_name(snapshot_id: OffsetAndEpoch) -> str:
    return f"{snapshot_id.offset:020d}-{snapshot_id.epoch:010d}{CHECKPOINT}"


def parse_snapshot_name(name: str) -> OffsetAndEpoch | None:
    match = _NAMED.fullmatch(name)
    return OffsetAndEpoch(int(match[1]), int(match[2])) if match else None


def encode_snapshot(
    records: Iterable[MetadataRecord],
    *,
    metadata_version: int,
    epoch: int,
    last_timestamp_ms: int,
    now_ms: int,
    quorum: QuorumVoters = CONFIGURED_VOTERS,
    max_batch_bytes: int = MAX_BATCH_BYTES,
) -> bytes:
    header = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_timestamp_ms)
    opening = [(ControlType.SNAPSHOT_HEADER, encode(header, 0)), *quorum.control_records()]
    data = control_batch(opening, base_offset=0, timestamp=now_ms, leader_epoch=epoch)
    offset = len(opening)
    values = (encode_metadata_record(record, record_version(record, metadata_version)) for record in records)
    for chunk in _chunks(values, max_batch_bytes):
        batch = [Record(number, now_ms, None, value) for number, value in enumerate(chunk, offset)]
        data += encode_batch(batch, leader_epoch=epoch)
        offset += len(chunk)
    footer = (ControlType.SNAPSHOT_FOOTER, encode(SnapshotFooterRecord(version=0), 0))
    data += control_batch([footer], base_offset=offset, timestamp=now_ms, leader_epoch=epoch)
    return bytes(data)


def _chunks(values: Iterable[bytes], max_bytes: int) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for value in values:
        if chunk and size + len(value) > max_bytes:
            yield chunk
            chunk, size = [], 0
        chunk.append(value)
        size += len(value)
    if chunk:
        yield chunk


def decode_snapshot(path: str, data: bytes) -> Snapshot:
    """Raises `InvalidMetadata` for a file that is damaged or does not end in its footer."""
    records: list[MetadataRecord] = []
    header: SnapshotHeaderRecord | None = None
    quorum = CONFIGURED_VOTERS
    is_complete = False
    for batch, record in _stored_records(path, data):
        if not batch.is_control:
            records.append(_decoded(path, record))
            continue
        control_type = parse_control_type(record.key)
        if control_type is ControlType.SNAPSHOT_HEADER:
            header = decode(SnapshotHeaderRecord, 0, record.value or b"")
        quorum = quorum.after(control_type, record.value or b"")
        is_complete = control_type is ControlType.SNAPSHOT_FOOTER
    if header is None or not is_complete:
        raise InvalidMetadata(f"{path} is incomplete: its {'header' if header is None else 'footer'} is missing")
    return Snapshot(records, header.last_contained_log_timestamp, quorum)


def decode_opening(path: str, data: bytes) -> Snapshot:
    """Decodes the first batch (`data` may end after it): everything but the records."""
    header: SnapshotHeaderRecord | None = None
    quorum = CONFIGURED_VOTERS
    for batch, record in _stored_records(path, data):
        if not batch.is_control:
            break
        control_type = parse_control_type(record.key)
        if control_type is ControlType.SNAPSHOT_HEADER:
            header = decode(SnapshotHeaderRecord, 0, record.value or b"")
        quorum = quorum.after(control_type, record.value or b"")
    if header is None:
        raise InvalidMetadata(f"{path} does not begin with a snapshot's header")
    return Snapshot([], header.last_contained_log_timestamp, quorum)


def _stored_records(path: str, data: bytes) -> Iterator[tuple[BatchHeader, Record]]:
    try:
        for position, batch in batch_headers(data[: whole_batches_length(data)]):
            check_crc(data, batch, position)
            for record in decode_batch(data, position):
                yield batch, record
    except (CorruptBatch, InvalidRecord, DecodeError) as error:
        raise InvalidMetadata(f"{path} is damaged: {error}") from error


def _decoded(path: str, record: Record) -> MetadataRecord:
    try:
        return decode_metadata_record(record.value or b"")[0]
    except DecodeError as error:
        raise InvalidMetadata(f"{path} cannot be read at offset {record.offset}: {error}") from error
