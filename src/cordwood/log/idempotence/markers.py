"""Decodes the transaction marker in a batch, if it has one."""

from cordwood.runtime.disk import Buffer
from cordwood.wire.batch_header import BatchHeader
from cordwood.wire.control import ControlType, EndTxnMarker, parse_control_type, parse_end_txn_marker
from cordwood.wire.record import CorruptBatch, InvalidRecord
from cordwood.wire.records import decode_batch


def end_txn_of(batch: Buffer, header: BatchHeader) -> EndTxnMarker | None:
    """The marker in a producer's control batch; None for data and for a batch emptied by compaction."""
    if not header.is_control or header.count < 1:
        return None
    try:
        record = decode_batch(batch)[0]
        if parse_control_type(record.key) not in (ControlType.COMMIT, ControlType.ABORT):
            return None
        return parse_end_txn_marker(record.key, record.value)
    except InvalidRecord as error:
        raise CorruptBatch(f"control batch at offset {header.base_offset}: {error}") from error
