"""Batches as producers send them, and as they should not."""

from __future__ import annotations

from collections.abc import Sequence

from cordwood.wire.compression import Codec
from cordwood.wire.record import Record
from cordwood.wire.records import encode_batch

# The youngest timestamp that is written; not so far from now that a topic would refuse it.
NOW = 1_700_000_000_000


def batch(
    *values: str,
    keys: Sequence[str | None] | None = None,
    timestamps: Sequence[int] | None = None,
    codec: Codec = Codec.NONE,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    records = [
        Record(
            base_offset + index,
            NOW if timestamps is None else timestamps[index],
            None if keys is None else _bytes(keys[index]),
            value.encode(),
            (),
        )
        for index, value in enumerate(values)
    ]
    return encode_batch(
        records,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=transactional,
        control=control,
        leader_epoch=leader_epoch,
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode()
