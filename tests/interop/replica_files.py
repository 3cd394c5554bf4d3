"""The bytes of replicas on disk, compared between nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cordwood.wire.batch_header import batch_headers


def batches(directory: Path) -> dict[int, bytes]:
    """The batches of a partition's log, by their base offsets. One that is being written is left out."""
    found: dict[int, bytes] = {}
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, header in batch_headers(data):
            found[header.base_offset] = data[position : position + header.size]
    return found


def start_offset(directory: Path) -> int:
    """The first offset of the log's first segment."""
    return min(int(path.stem) for path in directory.glob("*.log"))


def end_offset(directory: Path) -> int:
    log = batches(directory)
    return next(batch_headers(log[max(log)]))[1].next_offset if log else start_offset(directory)


def assert_equal_replicas(directories: Sequence[Path], high_watermark: int) -> int:
    """Asserts that all the replicas reach the high watermark, and that up to it they have the same bytes from where the
    shortest one begins. Returns how many batches were compared."""
    first = max(map(start_offset, directories))
    logs = []
    for directory in directories:
        end = end_offset(directory)
        assert end >= high_watermark, f"{directory} ends at {end}, below the high watermark {high_watermark}"
        logs.append({base: data for base, data in batches(directory).items() if first <= base < high_watermark})
    for directory, log in zip(directories[1:], logs[1:], strict=True):
        for offset in sorted(log.keys() | logs[0].keys()):
            assert log.get(offset) == logs[0].get(offset), f"{directory} differs from {directories[0]} at {offset}"
    return len(logs[0])
