"""`cordwood log dirs`: lists the contents of data directories, and removes strays, without a running node."""

import os
from typing import Any

from cordwood.cli.connection.access import EXIT_BAD_INPUT, fail
from cordwood.cli.terminal.consent import confirm_deletion, shortened
from cordwood.cli.terminal.output import counted, print_facts, print_json, print_table, warn
from cordwood.log.checkpoints.formats import META_PROPERTIES, CorruptCheckpoint, MetaProperties
from cordwood.log.dirs.contents import Folder, Kind, folders
from cordwood.log.removals import remove_partition
from cordwood.runtime.disk import DiskError
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.wire.primitives import uuid_text

# The label of each kind of directory, and how it came to be there.
_KINDS = {
    Kind.PARTITION: "partition",
    Kind.METADATA: "metadata log",
    Kind.FUTURE: "moving in",
    Kind.DELETED: "deleted, removed at the next start",
    Kind.STRAY: "stray",
    Kind.FOREIGN: "not a partition, left alone",
}


def log_dirs(paths: list[str], *, as_json: bool, remove_strays: bool, yes: bool) -> int:
    """Lists every directory, or removes their strays. Returns the exit code."""
    try:
        disks = [_opened(path) for path in paths]
        if remove_strays:
            return _remove_strays(disks, yes=yes)
        described = [_described(disk) for disk in disks]
    except DiskError as error:
        fail(str(error), EXIT_BAD_INPUT)
    if as_json:
        print_json({"directories": described})
    else:
        for directory in described:
            _print(directory)
    return 0


def _opened(path: str) -> LocalDisk:
    if not os.path.isdir(path):
        fail(f"{path}: {'not a directory' if os.path.exists(path) else 'no such directory'}", EXIT_BAD_INPUT)
    disk = LocalDisk(path)
    if not disk.exists(META_PROPERTIES) and all(folder.kind is Kind.FOREIGN for folder in folders(disk)):
        fail(f"{path} is not a data directory: it has no {META_PROPERTIES} and no partitions", EXIT_BAD_INPUT)
    return disk


def _described(disk: LocalDisk) -> dict[str, Any]:
    meta = _meta(disk)
    return {
        "path": disk.root,
        "clusterId": None if meta is None else meta.cluster_id,
        "nodeId": None if meta is None else meta.node_id,
        "directoryId": None if meta is None or meta.directory_id is None else uuid_text(meta.directory_id),
        "folders": [
            {
                "name": folder.name,
                "kind": folder.kind.value,
                "topic": folder.topic or None,
                "partition": None if folder.kind is Kind.FOREIGN else folder.partition,
                "sizeInBytes": None if folder.kind is Kind.FOREIGN else _size(disk, folder),
            }
            for folder in folders(disk)
        ],
    }


def _meta(disk: LocalDisk) -> MetaProperties | None:
    data = disk.read_file(META_PROPERTIES)
    if data is None:
        warn(f"{disk.root} has no {META_PROPERTIES}: `cordwood up` says how to write it again")
        return None
    try:
        return MetaProperties.decode(f"{disk.root}/{META_PROPERTIES}", data)
    except CorruptCheckpoint as error:
        warn(str(error))
        return None


def _size(disk: LocalDisk, folder: Folder) -> int:
    return sum(entry.size for entry in disk.list(folder.name))


def _print(directory: dict[str, Any]) -> None:
    print_facts(
        [
            ("directory", directory["path"]),
            ("cluster id", directory["clusterId"]),
            ("node id", directory["nodeId"]),
            ("directory id", directory["directoryId"]),
        ]
    )
    rows = [
        (folder["name"], _KINDS[Kind(folder["kind"])], folder["topic"], folder["partition"], folder["sizeInBytes"])
        for folder in directory["folders"]
    ]
    print_table(("folder", "kind", "topic", "partition", "bytes"), rows, kind="folder")


def _remove_strays(disks: list[LocalDisk], *, yes: bool) -> int:
    strays = [(disk, folder) for disk in disks for folder in folders(disk) if folder.kind is Kind.STRAY]
    if not strays:
        print("There are no strays.")
        return 0
    size = sum(_size(disk, folder) for disk, folder in strays)
    names = shortened([folder.name for _, folder in strays])
    confirm_deletion(f"{counted(len(strays), 'stray partition')} with {size} bytes, for good: {names}", yes)
    for disk, folder in strays:
        if remove_partition(disk, folder.name):
            print(f"Removed {disk.root}/{folder.name}")
    return 0
