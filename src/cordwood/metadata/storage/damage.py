"""Damage to the metadata log, found before anything is changed.

The end of the log may hold a write that a crash interrupted: it is cut off, and kept as a `.corrupt` copy. Anything
else is damage to committed metadata. Without it, partitions that hold data would look like deleted ones, so the node
does not start without --accept-metadata-loss.
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from cordwood.log.checkpoints.formats import CLEAN_SHUTDOWN
from cordwood.log.files import CORRUPT, LOG, SEGMENT_FILES, file_name, parse_file_name
from cordwood.log.storage.batches import whole_batches
from cordwood.metadata.exceptions import DamagedMetadata
from cordwood.runtime.disk import Disk, File
from cordwood.wire.batch_header import LOG_OVERHEAD, check_crc, read_header
from cordwood.wire.record import CorruptBatch

logger = logging.getLogger(__name__)

# The position of a batch's magic byte, and the magic of all metadata.
_MAGIC_POSITION = 16
_MAGIC = b"\x02"
# A larger rest is never an unfinished write.
_MAX_TORN_BYTES = 16 << 20
_COPIED_BYTES = 1 << 20


class Damage(NamedTuple):
    """The first position at which the log cannot be read."""

    path: str
    position: int
    # The first that is lost.
    offset: int
    reason: str
    # Nothing whole follows it in the file, as after a write that was not finished. (The next file may have reached
    # the disk without the end of this one.)
    is_at_end: bool


class _Inspection(NamedTuple):
    """The log can be read up to `end_offset`; `damage` says why not further."""

    end_offset: int
    damage: Damage | None


def mend(disk: Disk, directory: str, snapshot_offset: int, recorded: int | None, *, accept_loss: bool) -> None:
    """Cuts off a write that was not finished, and keeps a copy. Raises `DamagedMetadata` for everything else that is
    wrong with the log, unless the loss is accepted."""
    end_offset, damage = _inspect(disk, directory, snapshot_offset)
    # Before a node takes a snapshot, it records that the log is committed and flushed so far. So a snapshot past the
    # recorded offset was fetched, and the log that it replaces may end earlier.
    committed = snapshot_offset if recorded is None else recorded
    if damage is None:
        if end_offset >= committed:
            return
        damage = _end_damage(disk, directory, end_offset)
    # A clean stop has flushed everything, also that of a Kafka that did not say how much that was.
    was_flushed = recorded is None and disk.exists(CLEAN_SHUTDOWN)
    if damage.offset < committed or not damage.is_at_end or was_flushed:
        told = _told(disk, directory, damage, committed, snapshot_offset)
        if not accept_loss:
            raise DamagedMetadata(told)
        logger.error("%s This loss was accepted", told)
    if damage.path == directory:
        return
    for copy in _cut(disk, directory, damage):
        logger.warning(
            "Cutting %s/%s at position %d, offset %d (%s); the removed data is kept in %s",
            disk.root,
            damage.path,
            damage.position,
            damage.offset,
            damage.reason,
            copy,
        )


def _told(disk: Disk, directory: str, damage: Damage, committed: int, snapshot_offset: int) -> str:
    known = f"records up to offset {committed - 1} are known to be committed" if damage.offset < committed else ""
    known = known or ("whole batches follow" if not damage.is_at_end else "the node was stopped cleanly")
    since = (
        f"{damage.offset} on" if damage.offset >= snapshot_offset else f"{snapshot_offset} on, where a snapshot ends"
    )
    return (
        f"the metadata log is damaged: {disk.root}/{damage.path} at position {damage.position}, offset "
        f"{damage.offset}: {damage.reason}; {known}. Restore {disk.root}/{directory} from a backup, or start "
        f"with --accept-metadata-loss to give up the metadata from offset {since}: partitions of topics that were "
        "created later become strays, which are kept."
    )


def _inspect(disk: Disk, directory: str, from_offset: int) -> _Inspection:
    """Walks the log from the segment on that holds `from_offset`: checksums, offsets without gaps, epochs that never go
    back."""
    bases = _segments(disk, directory)
    first = max((base for base in bases if base <= from_offset), default=bases[0] if bases else 0)
    next_offset, epoch = first, -1
    for base in bases[bases.index(first) :] if bases else []:
        path = f"{directory}/{file_name(base, LOG)}"
        file = disk.open(path)
        position = 0
        try:
            if base != next_offset:
                raise CorruptBatch(f"the log continues at offset {base}: earlier records are missing")
            for position, header, data in whole_batches(file, 0, file.size):
                check_crc(data, header)
                if header.base_offset != next_offset:
                    raise CorruptBatch(f"a batch says that it begins at offset {header.base_offset}")
                if header.leader_epoch < epoch:
                    raise CorruptBatch(f"epoch {header.leader_epoch} follows epoch {epoch}")
                next_offset, epoch = header.next_offset, header.leader_epoch
                position += header.size
        except CorruptBatch as error:
            is_at_end = base > next_offset or not _has_batches(file, position, next_offset)
            return _Inspection(next_offset, Damage(path, position, next_offset, str(error), is_at_end))
        finally:
            file.close()
    return _Inspection(next_offset, None)


def _end_damage(disk: Disk, directory: str, end_offset: int) -> Damage:
    """Damage of an intact log that ends too early."""
    bases = _segments(disk, directory)
    if not bases:
        return Damage(directory, 0, 0, "it has no segments", False)
    path = f"{directory}/{file_name(bases[-1], LOG)}"
    return Damage(path, disk.open(path).size, end_offset, "the file ends there", False)


def _cut(disk: Disk, directory: str, damage: Damage) -> list[str]:
    """Truncates the log before the damage. The removed data is kept in copies beside it; returns their names."""
    copies = []
    damaged = parse_file_name(damage.path.rpartition("/")[2])
    assert damaged is not None, "only segments are cut"
    for base in _segments(disk, directory):
        if base < damaged.base_offset:
            continue
        position = damage.position if base == damaged.base_offset else 0
        file = disk.open(f"{directory}/{file_name(base, LOG)}")
        if position < file.size:
            copies.append(keep_copy(disk, file, position))
        if base <= damage.offset:
            file.truncate(position)
            file.sync()
        file.close()
        if base > damage.offset:
            for kind in SEGMENT_FILES:
                disk.remove(f"{directory}/{file_name(base, kind)}")
    disk.sync_directory(directory)
    return copies


def keep_copy(disk: Disk, file: File, position: int = 0) -> str:
    """Copies a file from a position on beside it, durably; the name of the copy."""
    number, path = 0, file.path + CORRUPT
    while disk.exists(path):
        number += 1
        path = f"{file.path}{CORRUPT}.{number}"
    copy = disk.create(path)
    while position < file.size:
        data = file.read(position, _COPIED_BYTES)
        copy.append(data)
        position += len(data)
    copy.sync()
    copy.close()
    return path


def _segments(disk: Disk, directory: str) -> list[int]:
    files = (parse_file_name(entry.name) for entry in disk.list(directory) if not entry.is_directory)
    return sorted(file.base_offset for file in files if file is not None and file.kind == LOG and not file.stage)


def _has_batches(file: File, position: int, offset: int) -> bool:
    """Returns whether a whole batch from an offset on exists anywhere after a position."""
    if file.size - position > _MAX_TORN_BYTES:
        return True
    data = file.read(position, file.size - position)
    return any(_is_batch(data, at, offset) for at in _candidates(data))


def _candidates(data: bytes) -> Iterator[int]:
    at = data.find(_MAGIC, _MAGIC_POSITION)
    while at >= 0:
        yield at - _MAGIC_POSITION
        at = data.find(_MAGIC, at + 1)


def _is_batch(data: bytes, at: int, offset: int) -> bool:
    size = LOG_OVERHEAD + int.from_bytes(data[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
    if not LOG_OVERHEAD < size <= len(data) - at:
        return False
    try:
        header = read_header(data, at)
        check_crc(data, header, at)
    except CorruptBatch:
        return False
    return header.base_offset >= offset
