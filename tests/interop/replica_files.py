"""The bytes of replicas on disk, compared between nodes."""

from __future__ import annotations

from pathlib import Path

from cordwood.wire.batch_header import batch_headers


def batches(directory: Path) -> dict[int, bytes]:
    """The batches of a partition's log, by their base offsets."""
    found: dict[int, bytes] = {}
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, header in batch_headers(data):
            found[header.base_offset] = data[position : position + header.size]
    return found


def end_offset(directory: Path) -> int:
    """The base offset of the last batch: a replica that stopped earlier has no more."""
    return max(batches(directory), default=0)


def assert_equal_replicas(directories: list[Path], *, below: int | None = None) -> int:
    """Asserts that the replicas have the same bytes wherever their ranges overlap, up to an offset. Returns how many
    batches were compared."""
    logs = [batches(directory) for directory in directories]
    first = max(min(log, default=0) for log in logs)
    for directory, log in zip(directories[1:], logs[1:], strict=True):
        for offset in sorted(log.keys() | logs[0].keys()):
            if first <= offset and (below is None or offset < below):
                assert log.get(offset) == logs[0].get(offset), f"{directory} differs from {directories[0]} at {offset}"
    return len([offset for offset in logs[0] if offset >= first])
