"""Loads a shard: reads its partition's log from disk and replays it into a fresh state.

It works in slices, so that the broker stays responsive, and logs the progress of a long load.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from cordwood.coordinator.record import CoordinatorRecord
from cordwood.log.log import Log
from cordwood.runtime.clock import Clock
from cordwood.shard.shard import State
from cordwood.wire.batch_header import BatchHeader, batch_headers
from cordwood.wire.control import ControlType, parse_control_type
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.frames import decode_coordinator_key, decode_coordinator_value
from cordwood.wire.records import decode_batch

_log = logging.getLogger(__name__)

# Records (some 10 µs each) to replay before other work has a turn.
_RECORDS_PER_SLICE = 200
_PROGRESS_S = 5.0


class LoadedState(State, Protocol):
    def replay_end_txn(self, producer_id: int, *, commit: bool) -> None:
        """Ends a producer's transaction: its writes take effect or are dropped."""

    def loaded(self) -> None:
        """Called after everything is replayed."""


async def load(
    coordinator: str, name: str, log: Log, state: LoadedState, clock: Clock, *, read_bytes: int = 1 << 20
) -> int:
    """Replays all of a log and returns the number of records. `coordinator` selects the record types. Reads this many
    bytes at a time, or one larger batch."""
    loading = _Loading(coordinator, name, state)
    began = told = clock.monotonic()
    since_slice = 0
    offset, first_offset = log.start_offset, log.start_offset
    while (found := log.read(offset, read_bytes, log.end_offset)) is not None:
        data = found.read()
        for position, header in batch_headers(data):
            offset = header.last_offset + 1
            before = loading.records
            loading.replay_batch(data, position, header)
            since_slice += loading.records - before + 1
            if since_slice >= _RECORDS_PER_SLICE:
                since_slice = 0
                await asyncio.sleep(0)
        now = clock.monotonic()
        if now - told >= _PROGRESS_S:
            told = now
            share = (offset - first_offset) / max(1, log.end_offset - first_offset)
            _log.info("Loading %s: %d records, %.0f %%, %.0f s", name, loading.records, 100 * share, now - began)
    state.loaded()
    return loading.records


class _Loading:
    def __init__(self, coordinator: str, name: str, state: LoadedState) -> None:
        self.records = 0
        self._kind = coordinator
        self._name = name
        self._state = state

    def replay_batch(self, data: bytes, position: int, header: BatchHeader) -> None:
        records = decode_batch(data, position)
        self.records += len(records)
        if header.is_control:
            for record in records:
                match parse_control_type(record.key):
                    case ControlType.COMMIT:
                        self._state.replay_end_txn(header.producer_id, commit=True)
                    case ControlType.ABORT:
                        self._state.replay_end_txn(header.producer_id, commit=False)
            return
        producer_id = header.producer_id if header.is_transactional else -1
        kind, replay = self._kind, self._state.replay
        # About 5 µs per record, for millions of records: hence few calls.
        for record in records:
            key_bytes, value_bytes = record.key, record.value
            if key_bytes is None:
                _log.warning("%s has a record without a key at offset %d", self._name, record.offset)
                continue
            try:
                key = decode_coordinator_key(kind, key_bytes)
                if value_bytes is None:
                    decoded = CoordinatorRecord(key, None)
                else:
                    value, version = decode_coordinator_value(kind, type(key).record_type, value_bytes)
                    decoded = CoordinatorRecord(key, value, version)
            except DecodeError as error:
                # Probably from a later release.
                _log.warning(
                    "Skipping a record of %s at offset %d of an unknown type: %s", self._name, record.offset, error
                )
                continue
            replay((decoded,), record.offset, producer_id)
