"""A batch of the metadata log, read: metadata records, or control records of the quorum."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cordwood.metadata.exceptions import InvalidMetadata
from cordwood.wire.batch_header import BatchHeader
from cordwood.wire.control import ControlType, parse_control_type
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.frames import decode_metadata_record
from cordwood.wire.record import Buffer, CorruptBatch, InvalidRecord
from cordwood.wire.records import decode_batch
from cordwood.wire.schema import MetadataRecord

if TYPE_CHECKING:
    from cordwood.metadata.loader import Loaded


@dataclass(slots=True)
class MetadataBatch:
    """A value, except for `loaded`, which caches the result of loading it."""

    base_offset: int
    next_offset: int
    epoch: int
    timestamp_ms: int
    size: int
    # One or the other.
    records: tuple[MetadataRecord, ...] = ()
    control: tuple[tuple[ControlType | None, bytes], ...] = ()
    loaded: "Loaded | None" = field(default=None, compare=False, repr=False)


def read_batch(data: Buffer, position: int, header: BatchHeader, from_offset: int = 0) -> MetadataBatch:
    """The batch without its records before `from_offset`: a snapshot may end within a batch."""
    try:
        stored = [record for record in decode_batch(data, position) if record.offset >= from_offset]
        control: tuple[tuple[ControlType | None, bytes], ...] = ()
        records: tuple[MetadataRecord, ...] = ()
        if header.is_control:
            control = tuple((parse_control_type(record.key), record.value or b"") for record in stored)
        else:
            records = tuple(decode_metadata_record(record.value or b"")[0] for record in stored)
    except (CorruptBatch, InvalidRecord, DecodeError) as error:
        raise InvalidMetadata(f"the metadata log cannot be read at offset {header.base_offset}: {error}") from error
    return MetadataBatch(
        max(header.base_offset, from_offset),
        header.next_offset,
        header.leader_epoch,
        header.max_timestamp,
        header.size,
        records,
        control,
    )
