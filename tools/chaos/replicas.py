"""The bytes of all replicas on the nodes' disks, which have to be equal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from chaos.checks import Kind, Violation
from cordwood.wire.batch_header import batch_headers

# A replica that is being moved to another directory, or removed.
_PASSING = ("-future", "-delete", "-stray")


def replicas_of(node_disks: Mapping[int, Iterable[Path]]) -> dict[str, dict[int, Path]]:
    """The directory of each partition on each node."""
    found: dict[str, dict[int, Path]] = defaultdict(dict)
    for node_id, disks in node_disks.items():
        for disk in disks:
            for directory in disk.iterdir() if disk.exists() else ():
                if directory.is_dir() and not directory.name.endswith(_PASSING) and any(directory.glob("*.log")):
                    found[directory.name][node_id] = directory
    return dict(found)


def batches(directory: Path) -> dict[int, bytes]:
    """The batches of a partition's log, by their base offsets."""
    found: dict[int, bytes] = {}
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        for position, header in batch_headers(data):
            found[header.base_offset] = data[position : position + header.size]
    return found


def check_replicas(partition: str, directories: Mapping[int, Path]) -> list[Violation]:
    """From the latest start of any of them on, they have the same batches."""
    logs = {node_id: batches(directory) for node_id, directory in directories.items()}
    first = max((min(log) for log in logs.values() if log), default=0)
    (one, expected), *others = logs.items()
    for node_id, log in others:
        for offset in sorted(log.keys() | expected.keys()):
            if offset >= first and log.get(offset) != expected.get(offset):
                text = f"{partition}: nodes {one} and {node_id} differ at offset {offset}: "
                text += f"{_described(expected.get(offset))} and {_described(log.get(offset))}"
                return [Violation(Kind.REPLICAS_DIFFER, text)]
    return []


def _described(batch: bytes | None) -> str:
    return "nothing" if batch is None else f"{len(batch)} bytes"
