"""The quorum's own state in the log: kraft.version and the voters, as of any offset.

A replica uses the latest voter set in its log whether that is committed or not (KIP-853, as in section 6 of the Raft
paper), so a truncation has to bring the one before it back.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from cordwood.wire.batch_header import batch_headers, check_crc
from cordwood.wire.codec import decode
from cordwood.wire.control import ControlType, parse_control_type
from cordwood.wire.messages.data.kraft_version_record import KRaftVersionRecord
from cordwood.wire.messages.data.voters_record import VotersRecord
from cordwood.wire.record import Buffer
from cordwood.wire.records import decode_batch

from .exceptions import InconsistentQuorum
from .log import LogState, OffsetAndEpoch, RaftLog
from .voters import VoterSet

T = TypeVar("T")

_READ_BYTES = 1 << 20
# Header, kraft.version and voters are the first batch of a snapshot.
_SNAPSHOT_OPENING_BYTES = 1 << 16


class Entry(NamedTuple, Generic[T]):
    offset: int
    value: T


class LogHistory(Generic[T]):
    """Values by the offset of the record that set them. -1 is that of the bootstrap snapshot."""

    def __init__(self) -> None:
        self._entries: list[Entry[T]] = []

    @property
    def last(self) -> Entry[T] | None:
        return self._entries[-1] if self._entries else None

    def add(self, offset: int, value: T) -> None:
        assert offset >= -1
        assert not self._entries or offset > self._entries[-1].offset, (offset, self._entries[-1])
        self._entries.append(Entry(offset, value))

    @property
    def before_last(self) -> Entry[T] | None:
        return self._entries[-2] if len(self._entries) > 1 else None

    def at(self, offset: int) -> T | None:
        """The value set at or before an offset."""
        found = bisect_right(self._entries, offset, key=lambda entry: entry.offset)
        return self._entries[found - 1].value if found else None

    def truncate_new(self, end_offset: int) -> None:
        del self._entries[bisect_left(self._entries, end_offset, key=lambda entry: entry.offset) :]

    def truncate_old(self, start_offset: int) -> None:
        """Forgets all values before the one that holds at `start_offset`."""
        del self._entries[: max(bisect_right(self._entries, start_offset, key=lambda entry: entry.offset) - 1, 0)]

    def clear(self) -> None:
        self._entries.clear()


class ControlState:
    def __init__(self, static_voters: VoterSet | None = None) -> None:
        self._static_voters = static_voters or VoterSet()
        self._voters: LogHistory[VoterSet] = LogHistory()
        self._versions: LogHistory[int] = LogHistory()

    @classmethod
    def load(cls, log: RaftLog, static_voters: VoterSet | None = None) -> "ControlState":
        """Reads the latest snapshot's opening and the control batches of the log after it."""
        state, control = LogState.of(log), cls(static_voters)
        offset = state.start_offset
        latest = state.latest_snapshot
        if latest is not None:
            control.load_snapshot(latest, log.read_snapshot(latest, 0, _SNAPSHOT_OPENING_BYTES))
            offset = latest.offset
        while offset < state.end_offset:
            data = log.read(offset, _READ_BYTES)
            for position, header in batch_headers(data):
                check_crc(data, header, position)
                if header.is_control and header.next_offset > offset:
                    control.apply_batch(data, position, from_offset=offset)
                offset = max(offset, header.next_offset)
        return control

    @property
    def voters(self) -> VoterSet:
        last = self._voters.last
        return last.value if last is not None else self._static_voters

    @property
    def voters_offset(self) -> int | None:
        """The offset of the voters' record; -1 if it is the bootstrap snapshot's, None if they are static."""
        last = self._voters.last
        return last.offset if last is not None else None

    @property
    def former_voters(self) -> VoterSet | None:
        """The voters before the latest change, as long as the log goes back that far."""
        before = self._voters.before_last
        return before.value if before is not None else None

    @property
    def kraft_version(self) -> int:
        last = self._versions.last
        return last.value if last is not None else 0

    @property
    def supports_reconfiguration(self) -> bool:
        return self.kraft_version >= 1

    def voters_at(self, offset: int) -> VoterSet | None:
        """The voters to write into a snapshot that ends at `offset`; None if they are static."""
        return self._voters.at(offset)

    def kraft_version_at(self, offset: int) -> int:
        return self._versions.at(offset) or 0

    def apply_batch(self, data: Buffer, position: int = 0, from_offset: int = 0) -> None:
        for record in decode_batch(data, position):
            if record.offset >= from_offset:
                self._apply(record.offset, parse_control_type(record.key), record.value or b"")

    def load_snapshot(self, snapshot_id: OffsetAndEpoch, opening: Buffer) -> None:
        """Resets to a snapshot, given at least its first batch."""
        self._voters.clear()
        self._versions.clear()
        for control_type, value in _opening_records(opening):
            self._apply(snapshot_id.offset - 1, control_type, value)

    def truncate_new(self, end_offset: int) -> None:
        self._voters.truncate_new(end_offset)
        self._versions.truncate_new(end_offset)

    def snapshot_taken(self, end_offset: int) -> None:
        """Drops values superseded by a snapshot that ends at `end_offset`. The record at that offset may yet be
        truncated, so the values before it are kept."""
        self._voters.truncate_old(end_offset - 1)
        self._versions.truncate_old(end_offset - 1)

    def _apply(self, offset: int, control_type: ControlType | None, value: bytes) -> None:
        if control_type is ControlType.KRAFT_VERSION:
            self._versions.add(offset, decode(KRaftVersionRecord, 0, value).k_raft_version)
        elif control_type is ControlType.KRAFT_VOTERS:
            voters = VoterSet.of_record(decode(VotersRecord, 0, value))
            last = self._voters.last
            # Values from formatting and configuration are not replicated, and may differ between replicas.
            if last is not None and last.offset >= 0 and not last.value.overlaps(voters):
                raise InconsistentQuorum(
                    f"the voters at offset {offset}, {voters}, differ from {last} in more than one"
                )
            self._voters.add(offset, voters)


def _opening_records(opening: Buffer) -> Iterator[tuple[ControlType | None, bytes]]:
    for position, header in batch_headers(opening):
        if not header.is_control:
            return
        for record in decode_batch(opening, position):
            yield parse_control_type(record.key), record.value or b""
