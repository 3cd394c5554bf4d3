"""Nodes whose metadata quorum is broken on purpose, where the machine without I/O cannot show it (tests/raft has those
that it can)."""

import pytest

from cordwood.metadata.storage.disk_log import DiskLog
from cordwood.metadata.storage.snapshot_files import SnapshotJob
from cordwood.quorum.member import Member
from cordwood.raft.events import Flushed
from tests.sim.mutants import Mutant


def serve_a_snapshot_half_written(monkeypatch: pytest.MonkeyPatch) -> None:
    end_snapshot = DiskLog.end_snapshot

    def half(self: DiskLog, job: SnapshotJob) -> int | None:
        size = end_snapshot(self, job)
        return None if size is None else size // 2

    monkeypatch.setattr(DiskLog, "end_snapshot", half)


def count_what_an_fsync_has_not_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member takes for flushed what it would have to flush."""

    async def flush(self: Member, _previous: object) -> None:
        job = self._disk_log.begin_flush(self._clock.now_ms())
        self._disk_log.end_flush(job)
        self._end_flush()
        self._step(Flushed(job.end_offset))

    monkeypatch.setattr(Member, "_flush", flush)


# `serve_a_snapshot_half_written` has its own scenario, in which a snapshot is needed.
QUORUM_MUTANTS: list[Mutant] = [count_what_an_fsync_has_not_finished]
