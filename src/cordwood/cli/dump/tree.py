"""Walks a path: a file, a partition's directory, or a whole log directory of Kafka or Cordwood."""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from os.path import abspath, split
from typing import Any

from cordwood.log.checkpoints.formats import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
)
from cordwood.log.files import (
    LEADER_EPOCHS,
    LOG,
    OFFSET_INDEX,
    PARTITION_METADATA,
    PRODUCER_SNAPSHOT,
    TIME_INDEX,
    TXN_INDEX,
    parse_directory_name,
)
from cordwood.runtime.files.read_only import ReadOnlyFile, is_directory, list_directory

from .describe import METADATA_TOPIC
from .index import ENTRY_READERS, dump_index, index_problems
from .segment import Batch, Selection, dump_segment, walk
from .small_files import dump_epochs, dump_json, dump_offsets, dump_producers, dump_properties
from .verify import SegmentCheck, Totals

METADATA_SNAPSHOT = ".checkpoint"
QUORUM_STATE = "quorum-state"

_SEGMENT_FILE = re.compile(
    r"((?P<base>\d{20})(-\d+)?|.*?)(?P<kind>\.log|\.index|\.timeindex|\.txnindex|\.snapshot|\.checkpoint)"
    r"(?P<stage>\.cleaned|\.swap|\.deleted|\.part|\.corrupt(\.\d+)?)?"
)
# Data that a start has cut off a log and kept.
_CUT_OFF = re.compile(r"\.corrupt(\.\d+)?$")
_INDEXES = (OFFSET_INDEX, TIME_INDEX, TXN_INDEX)
_TITLES = {
    LOG: "log segment",
    OFFSET_INDEX: "offset index",
    TIME_INDEX: "time index",
    TXN_INDEX: "transaction index",
    PRODUCER_SNAPSHOT: "producer snapshot",
    METADATA_SNAPSHOT: "metadata snapshot",
}
_ORDER = {kind: number for number, kind in enumerate(_TITLES)}
_SMALL_FILES: dict[str, tuple[str, Callable[[ReadOnlyFile], Iterator[dict[str, Any]]]]] = {
    CLEAN_SHUTDOWN: ("clean shutdown", dump_json),
    META_PROPERTIES: ("directory properties", dump_properties),
    RECOVERY_POINTS: ("recovery points", dump_offsets),
    LOG_START_OFFSETS: ("log start offsets", dump_offsets),
    HIGH_WATERMARKS: ("high watermarks", dump_offsets),
    CLEANER_OFFSETS: ("cleaner offsets", dump_offsets),
    PARTITION_METADATA: ("partition metadata", dump_properties),
    LEADER_EPOCHS: ("leader epochs", dump_epochs),
    QUORUM_STATE: ("quorum state", dump_json),
}


class NotKafka(Exception):
    """The path does not belong to a log directory; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class DumpOptions:
    selection: Selection
    indexes: bool = False
    # If set, everything is verified, and problems are counted here.
    totals: Totals | None = None

    @property
    def verify(self) -> bool:
        return self.totals is not None


@dataclass(frozen=True, slots=True)
class Found:
    """A file of a partition or a log directory. `base_offset` is 0 where its name does not tell it (`is_named`)."""

    path: str
    # The file's suffix, or its name if that is fixed.
    kind: str
    base_offset: int
    is_named: bool
    # False for directories of replicas that are being moved or deleted.
    is_live: bool

    @property
    def is_cut_off(self) -> bool:
        return _CUT_OFF.search(self.path) is not None

    @property
    def title(self) -> str:
        return _TITLES.get(self.kind) or _SMALL_FILES[self.kind][0]


def dump(path: str, options: DumpOptions) -> Iterator[dict[str, Any]]:
    """Dumps everything at `path`; each dictionary names its file. Raises NotKafka, or OSError if it cannot be read."""
    path = path.rstrip("/") or path[:1]
    if is_directory(path):
        yield from _dump_directory(path, options)
        return
    directory, name = split(path)
    found = _find(path, name)
    if found is None or not _may_be(found):
        raise NotKafka(
            f"{path} is not a log directory file: expected a segment ({LOG}), an index ({', '.join(_INDEXES)}), a "
            f"snapshot ({PRODUCER_SNAPSHOT}, {METADATA_SNAPSHOT}) or one of {', '.join(sorted(_SMALL_FILES))}"
        )
    beside = _list_files(directory or ".") if options.verify else [found]
    topic = _topic_of(abspath(directory or "."))
    if found.kind in _INDEXES:
        yield from _dump_one_index(found, beside, options)
    else:
        yield from _dump_file(found, PartitionFiles(topic, beside), options)


def _may_be(found: Found) -> bool:
    """True if an explicitly named file can be shown. Other programs have `.log` files too."""
    return found.kind != LOG or found.is_named or _is_segment(found)


def _is_segment(found: Found) -> bool:
    """True for a segment that is not named after an offset, such as Kafka's bootstrap.checkpoint, but begins with a
    batch."""
    if found.kind not in (LOG, METADATA_SNAPSHOT):
        return False
    with ReadOnlyFile(found.path) as file:
        return isinstance(next(walk(file, decode=False), None), Batch)


def _dump_directory(path: str, options: DumpOptions) -> Iterator[dict[str, Any]]:
    is_empty = True
    for partition in _partitions(path):
        is_empty = is_empty and not partition.files
        yield from _dump_files(partition, options)
    if is_empty:
        raise NotKafka(f"{path} is not a log directory: no segments, no checkpoints and no partitions")


def _partitions(path: str) -> Iterator["PartitionFiles"]:
    """Yields the files of the directory itself, then those of its partitions. Skips directories named like `name-1`
    that have no files of Kafka's or ours: other programs have such directories too."""
    yield PartitionFiles(_topic_of(abspath(path)), _list_files(path))
    for name, is_a_directory in list_directory(path):
        if is_a_directory and _topic_of(name):
            try:
                yield PartitionFiles(_topic_of(name), _list_files(f"{path}/{name}"))
            except FileNotFoundError:
                # A running broker has just deleted or renamed it.
                continue


def _dump_files(partition: "PartitionFiles", options: DumpOptions) -> Iterator[dict[str, Any]]:
    for found in partition.files:
        if found.kind in _INDEXES and not options.indexes:
            continue
        if found.kind == LOG and not options.verify and partition.ends_before(found, options.selection.from_offset):
            continue
        try:
            if options.verify and found.is_cut_off:
                # Nothing reads it again, and that it is damaged is why it is there.
                with ReadOnlyFile(found.path) as file:
                    title = f"{found.title}, cut off and kept; not verified"
                    yield {"type": "file", "file": found.path, "kind": title, "sizeInBytes": file.size}
                continue
            yield from _dump_file(found, partition, options)
        except FileNotFoundError:
            continue


class PartitionFiles:
    """The files of one directory, in the order in which they are shown, and how far its segments were verified."""

    def __init__(self, topic: str | None, files: list[Found]) -> None:
        self.topic = topic
        self.files = files
        self.next_offset = 0
        self._bases = [found.base_offset for found in files if found.kind == LOG and found.is_live]
        self._live = {(found.base_offset, found.kind): found for found in files if found.is_live}

    def ends_before(self, segment: Found, offset: int) -> bool:
        """True if the next segment begins at or before `offset`."""
        after = bisect_right(self._bases, segment.base_offset)
        return segment.is_live and after < len(self._bases) and self._bases[after] <= offset

    def is_last(self, segment: Found) -> bool:
        """True for the active segment."""
        return segment.is_live and segment.base_offset == self._bases[-1]

    def sibling(self, segment: Found, kind: str) -> Found | None:
        return self._live.get((segment.base_offset, kind)) if segment.is_live else None


def _dump_file(found: Found, partition: PartitionFiles, options: DumpOptions) -> Iterator[dict[str, Any]]:
    with ReadOnlyFile(found.path) as file:
        yield {"type": "file", "file": found.path, "kind": found.title, "sizeInBytes": file.size}
        for described in _contents(file, found, partition, options):
            yield {"type": described.pop("type"), "file": found.path} | described


def _contents(
    file: ReadOnlyFile, found: Found, partition: PartitionFiles, options: DumpOptions
) -> Iterator[dict[str, Any]]:
    if found.kind in _SMALL_FILES:
        try:
            yield from _SMALL_FILES[found.kind][1](file)
        except ValueError as error:
            yield {"type": "problem", "reason": str(error)}
    elif found.kind in _INDEXES:
        yield from dump_index(file, found.kind, found.base_offset)
    elif found.kind == PRODUCER_SNAPSHOT:
        yield from dump_producers(file)
    elif found.kind == METADATA_SNAPSHOT:
        check = None if options.totals is None else SegmentCheck(0, options.totals)
        yield from dump_segment(file, METADATA_TOPIC, options.selection, check)
    elif options.totals is not None:
        yield from _verified_segment(file, found, partition, options.selection, options.totals)
    else:
        yield from dump_segment(file, partition.topic, options.selection)


def _verified_segment(
    file: ReadOnlyFile, found: Found, partition: PartitionFiles, selection: Selection, totals: Totals
) -> Iterator[dict[str, Any]]:
    with ExitStack() as opened:
        indexes = {}
        for kind in _INDEXES:
            index = partition.sibling(found, kind)
            if index is not None:
                indexes[kind] = opened.enter_context(ReadOnlyFile(index.path))
                yield from index_problems(indexes[kind], kind)
        if found.is_live and found.base_offset < partition.next_offset:
            yield {"type": "problem", "reason": f"the segment before it goes up to offset {partition.next_offset - 1}"}
        check = _check(found, partition, indexes, totals)
        yield from dump_segment(file, partition.topic, selection, check)
        if found.is_live:
            partition.next_offset = check.next_offset


def _dump_one_index(found: Found, beside: list[Found], options: DumpOptions) -> Iterator[dict[str, Any]]:
    """Verifies an explicitly named index against the segment beside it."""
    partition = PartitionFiles(None, beside)
    yield from _dump_file(found, partition, options)
    segment = partition.sibling(found, LOG)
    if options.totals is None or segment is None:
        return
    with ReadOnlyFile(found.path) as index, ReadOnlyFile(segment.path) as log:
        check = _check(found, partition, {found.kind: index}, options.totals)
        for problem in dump_segment(log, None, Selection(records=False, limit=0), check):
            yield {"type": problem.pop("type"), "file": found.path} | problem


def _check(segment: Found, partition: PartitionFiles, indexes: dict[str, ReadOnlyFile], totals: Totals) -> SegmentCheck:
    offsets, times, txns = (
        ENTRY_READERS[kind](indexes[kind], segment.base_offset) if kind in indexes else iter(()) for kind in _INDEXES
    )
    # A segment that is being deleted may have lost its index already. The last entries of the active segment's index
    # may be in the running broker's memory only; it rebuilds them after a crash.
    has_index = TXN_INDEX in indexes or (segment.kind == LOG and segment.is_live)
    is_complete = has_index and not partition.is_last(segment)
    return SegmentCheck(segment.base_offset, totals, offsets, times, txns, all_txns=is_complete)


def _list_files(path: str) -> list[Found]:
    found = [
        file
        for name, is_a_directory in list_directory(path)
        if not is_a_directory and (file := _find(f"{path}/{name}", name)) and (file.is_named or _is_segment(file))
    ]
    return sorted(
        found, key=lambda file: (file.kind not in _SMALL_FILES, file.base_offset, _ORDER.get(file.kind, 0), file.path)
    )


def _find(path: str, name: str) -> Found | None:
    if name in _SMALL_FILES:
        return Found(path, name, 0, True, True)
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None:
        return None
    is_named = match["base"] is not None
    return Found(path, match["kind"], int(match["base"] or 0), is_named, is_named and match["stage"] is None)


def _topic_of(directory: str) -> str | None:
    parsed = parse_directory_name(directory.rpartition("/")[2])
    return parsed.topic if parsed else None
