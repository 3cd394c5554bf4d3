"""The node's directories: inspected, locked, checked to belong together, and formatted if new. Nothing is written to a
directory with other contents."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cordwood.config.broker import BrokerConfig
from cordwood.log.checkpoints.formats import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    META_PROPERTIES,
    RECOVERY_POINTS,
    CorruptCheckpoint,
    MetaProperties,
)
from cordwood.log.dirs.contents import Folder, Kind, folders, is_incidental
from cordwood.log.dirs.directory import NO_ID
from cordwood.log.files import LOG
from cordwood.metadata.bootstrap import BOOTSTRAP_CHECKPOINT, first_voter, format_directory
from cordwood.metadata.image import is_reserved_directory
from cordwood.metadata.storage.committed_offset import COMMITTED_OFFSET, recorded_offset
from cordwood.metadata.storage.disk_log import METADATA_DIRECTORY
from cordwood.metadata.storage.reading import read_image
from cordwood.metadata.storage.snapshot import parse_snapshot_name
from cordwood.raft.identity import Endpoint
from cordwood.raft.voters import VoterSet
from cordwood.runtime.disk import Disk, DiskError, Entry
from cordwood.runtime.randomness import Random, new_uuid
from cordwood.wire.primitives import Uuid, uuid_text

_log = logging.getLogger(__name__)

_CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS, COMMITTED_OFFSET, CLEAN_SHUTDOWN)
_UNFINISHED = ".tmp"
_NAMED = 5


class CannotStart(Exception):
    """The node cannot start; the text says why."""


class LogDirs(NamedTuple):
    """The node's directories, and the node id and cluster id in them."""

    cluster_id: str
    # In the order of `log.dirs`. Unusable ones are included, without an id.
    disks: tuple[Disk, ...]
    broker_ids: tuple[Uuid, ...]
    # The directory of the metadata log; it may be one of them.
    metadata: Disk
    metadata_id: Uuid


class TakenDirectories(NamedTuple):
    """Locked, checked, and not written to yet."""

    config: BrokerConfig
    disks: Mapping[str, Disk]
    roots: Sequence[str]
    metadata_root: str
    cluster_id: str
    # For usable directories; None without a `meta.properties`.
    known: Mapping[str, MetaProperties | None]
    # For directories without an id in their `meta.properties`: the id in the metadata, if there is one.
    lost_ids: Mapping[str, Uuid]

    def format(self, random: Random, now_ms: int) -> LogDirs:
        """Formats new directories, and gives an id to those without one (from Kafka before 3.7), as Kafka does."""
        ids: dict[str, Uuid] = {}
        # The metadata directory last: it marks the node as formatted.
        for root, meta in sorted(self.known.items(), key=lambda entry: entry[0] == self.metadata_root):
            if meta is not None and meta.directory_id is not None:
                ids[root] = meta.directory_id
                continue
            ids[root] = self.lost_ids.get(root) or new_uuid(random)
            if meta is not None:
                _log.info("Writing a directory.id into %s/%s, which had none", root, META_PROPERTIES)
            elif root == self.metadata_root:
                self._begin_metadata(ids[root], now_ms)
            written = MetaProperties(self.cluster_id, self.config.node_id, ids[root])
            self.disks[root].write_file(META_PROPERTIES, written.encode(now_ms))
        return LogDirs(
            self.cluster_id,
            tuple(self.disks[root] for root in self.roots),
            tuple(ids.get(root, NO_ID) for root in self.roots),
            self.disks[self.metadata_root],
            ids[self.metadata_root],
        )

    def _begin_metadata(self, directory_id: Uuid, now_ms: int) -> None:
        endpoints = {
            end.listener: Endpoint(end.host or "localhost", end.port)
            for end in self.config.listeners.advertised_controllers
        }
        voter = first_voter(self.config.node_id, directory_id, endpoints)
        format_directory(self.disks[self.metadata_root], VoterSet([voter]), now_ms=now_ms)


def take_directories(
    config: BrokerConfig, open_disk: Callable[[str], Disk], random: Random, *, accept_metadata_loss: bool = False
) -> TakenDirectories:
    """Raises `CannotStart` if another process has locked one of them, they belong to another node, they have other
    contents, or none is usable. An unusable one is left out, as in Kafka, unless it is the metadata directory."""
    roots = tuple(dict.fromkeys(config.log_dirs))
    metadata_root = config.metadata_log_dir
    disks = {root: open_disk(root) for root in dict.fromkeys([*roots, metadata_root])}
    try:
        looks = _look_at_all(disks, metadata_root)
        if not set(roots) & looks.keys():
            raise CannotStart("none of the log directories can be used")
        known = {root: look.meta for root, look in looks.items()}
        _check_meta(config, known)
        cluster_id = next((meta.cluster_id for meta in known.values() if meta is not None), None)
        for root, look in looks.items():
            if look.meta is None and look.is_used:
                raise CannotStart(_how_to_repair(config, disks, looks, root, metadata_root, cluster_id, random))
        if known[metadata_root] is None and not config.stands_alone:
            raise CannotStart(_how_to_format(config, metadata_root))
        is_expendable = "controller" not in config.items("process.roles") or (
            _is_metadata_expendable(config, looks, metadata_root) and not recorded_offset(disks[metadata_root])
        )
        _check_metadata(looks, metadata_root, accept_loss=accept_metadata_loss or is_expendable)
        lost_ids = {
            root: found
            for root, look in looks.items()
            if look.meta is not None
            and look.meta.directory_id is None
            and (found := _lost_directory_id(config.node_id, disks[metadata_root], looks, root)) is not None
        }
    except BaseException:
        for disk in disks.values():
            disk.close()
        raise
    return TakenDirectories(
        config, disks, roots, metadata_root, cluster_id or uuid_text(new_uuid(random)), known, lost_ids
    )


class _Look(NamedTuple):
    meta: MetaProperties | None
    folders: tuple[Folder, ...]
    # True if it has files of Cordwood or Kafka besides `meta.properties`.
    checkpoints: tuple[str, ...]
    # True if the metadata log has a segment with records, or a snapshot with some.
    has_metadata: bool
    # True if it has any snapshot of the metadata log, be it the empty one that formatting writes.
    has_snapshot: bool

    @property
    def is_used(self) -> bool:
        """True if a node has run here."""
        return bool(self.checkpoints) or self.has_metadata or self.has_partitions

    @property
    def has_partitions(self) -> bool:
        return any(folder.kind in _USED for folder in self.folders)


_USED = (Kind.PARTITION, Kind.FUTURE, Kind.DELETED, Kind.STRAY)


def _look_at_all(disks: Mapping[str, Disk], metadata_root: str) -> dict[str, _Look]:
    looks: dict[str, _Look] = {}
    for root, disk in disks.items():
        try:
            # Before locking, which leaves a file: leave no trace in a foreign directory.
            _refuse_foreign(disk, {other.root for other in disks.values()})
            if not disk.lock():
                raise CannotStart(
                    f"{root} is in use by another process: stop it, or give this one its own directory "
                    "(--data, or log.dirs)"
                )
            looks[root] = _look(root, disk)
        except DiskError as error:
            if root == metadata_root:
                raise CannotStart(f"{error}. The node cannot start without its metadata log") from error
            _log.error("%s; the node starts without it", error)
    return looks


def _refuse_foreign(disk: Disk, roots: set[str]) -> None:
    """Refuses to format a directory that contains anything but the remains of an interrupted format."""
    if disk.exists(META_PROPERTIES):
        return
    look = _look(disk.root, disk)
    if look.is_used:
        # A data directory whose `meta.properties` is lost.
        return
    nested = {root.removeprefix(f"{disk.root}/").partition("/")[0] for root in roots if root.startswith(disk.root)}
    others = [
        entry.name
        for entry in disk.list()
        if not is_incidental(entry)
        and entry.name not in nested
        and entry.name.removesuffix(_UNFINISHED) not in (META_PROPERTIES, BOOTSTRAP_CHECKPOINT, METADATA_DIRECTORY)
    ]
    if others:
        raise CannotStart(
            f"{disk.root} is not empty, and it is not a data directory: it has no {META_PROPERTIES} and holds "
            f"{_some(others)}. Nothing was written. Give --data (or log.dirs) a new or an empty directory, such as "
            f"{disk.root}/cordwood"
        )


def _look(root: str, disk: Disk) -> _Look:
    return _Look(
        _read_meta(root, disk),
        tuple(folders(disk)),
        tuple(name for name in _CHECKPOINTS if disk.exists(name)),
        any(_has_metadata(entry) for entry in disk.list(METADATA_DIRECTORY)),
        any(parse_snapshot_name(entry.name) is not None for entry in disk.list(METADATA_DIRECTORY)),
    )


def _has_metadata(entry: Entry) -> bool:
    snapshot_id = parse_snapshot_name(entry.name)
    return entry.size > 0 and (entry.name.endswith(LOG) or (snapshot_id is not None and snapshot_id.offset > 0))


def _read_meta(root: str, disk: Disk) -> MetaProperties | None:
    data = disk.read_file(META_PROPERTIES)
    if data is None:
        return None
    try:
        meta = MetaProperties.decode(f"{root}/{META_PROPERTIES}", data)
    except CorruptCheckpoint as error:
        raise CannotStart(
            f"{error}. Restore the file from a backup, or rename it: the next start says what to write in its place"
        ) from error
    if meta.version == 0:
        raise CannotStart(
            f"{root}/{META_PROPERTIES} is of a broker that used ZooKeeper (version=0, broker.id={meta.node_id}). "
            "Cordwood takes over directories of KRaft (version=1, node.id): migrate the cluster with Kafka 3.9 first"
        )
    return meta


def _check_meta(config: BrokerConfig, known: Mapping[str, MetaProperties | None]) -> None:
    clusters: dict[str, str] = {}
    ids: dict[Uuid, str] = {}
    for root, meta in known.items():
        if meta is None:
            continue
        if meta.node_id != config.node_id:
            raise CannotStart(f"{root} belongs to node {meta.node_id}, and this node's node.id is {config.node_id}")
        clusters.setdefault(meta.cluster_id, root)
        if meta.directory_id is not None:
            told = f"directory.id={uuid_text(meta.directory_id)} in {root}/{META_PROPERTIES}"
            if is_reserved_directory(meta.directory_id):
                raise CannotStart(f"{told} is reserved: remove the line, and the directory is given a new id")
            if meta.directory_id in ids:
                raise CannotStart(
                    f"{told} is also the id of {ids[meta.directory_id]}: one of them is a copy of the other. "
                    "Leave the copy out of log.dirs"
                )
            ids[meta.directory_id] = root
    if len(clusters) > 1:
        told = ", ".join(f"{root} is of cluster {cluster}" for cluster, root in clusters.items())
        raise CannotStart(f"the log directories do not belong together: {told}")


def _is_metadata_expendable(config: BrokerConfig, looks: Mapping[str, _Look], metadata_root: str) -> bool:
    """A controller may have stopped before anything was committed. But the only voter of a quorum is named in the
    snapshot that formatting writes, and without it the node would wait for others forever."""
    look = looks[metadata_root]
    if config.stands_alone and not config.quorum.is_static and look.meta is not None and not look.has_snapshot:
        return False
    return not any(each.has_partitions for each in looks.values())


def _check_metadata(looks: Mapping[str, _Look], metadata_root: str, *, accept_loss: bool) -> None:
    """A node that has run before has exactly one metadata log. Without it all partitions would be strays."""
    elsewhere = [root for root, look in looks.items() if look.has_metadata and root != metadata_root]
    if elsewhere:
        raise CannotStart(
            f"the metadata log is in {elsewhere[0]}/{METADATA_DIRECTORY}, and should be in {metadata_root}: put "
            "metadata.log.dir, or the order of log.dirs, as it was, or move the folder there"
        )
    used = [root for root, look in looks.items() if look.is_used or look.meta is not None]
    if used and not looks[metadata_root].has_metadata and not accept_loss:
        raise CannotStart(
            f"the metadata log {metadata_root}/{METADATA_DIRECTORY} is missing or empty, and {used[0]} is in use since "
            "an earlier start: without it the node does not know its topics. If it is in another directory, name that "
            "one in metadata.log.dir or first in log.dirs; or restore it from a backup; or start with "
            "--accept-metadata-loss --allow-strays, which begins without topics and keeps all partitions as strays"
        )


def _how_to_format(config: BrokerConfig, metadata_root: str) -> str:
    voters = ""
    if "controller" in config.items("process.roles") and not config.quorum.is_static:
        voters = (
            "\nand one of --standalone (the first controller of a new cluster), --initial-controllers (all of its "
            "controllers), --no-initial-controllers (a controller that joins a cluster)"
        )
    return (
        f"{metadata_root} is not formatted, and a node of a cluster does not format its directories itself. Format "
        "them with the id of the cluster (cordwood random-uuid makes one for a new cluster):\n"
        f"  cordwood format --config FILE --cluster-id ID{voters}"
    )


def _how_to_repair(
    config: BrokerConfig,
    disks: Mapping[str, Disk],
    looks: Mapping[str, _Look],
    root: str,
    metadata_root: str,
    cluster_id: str | None,
    random: Random,
) -> str:
    """Describes the information lost with `meta.properties`, as far as it exists elsewhere."""
    lines = ["version=1", f"cluster.id={cluster_id or uuid_text(new_uuid(random))}", f"node.id={config.node_id}"]
    directory_id = _lost_directory_id(config.node_id, disks[metadata_root], looks, root)
    if directory_id is not None:
        lines.append(f"directory.id={uuid_text(directory_id)}")
    import shlex

    note = "" if cluster_id else " (this cluster.id is a new one: put the old one there if you know it)"
    return (
        f"{root} holds data, and its {META_PROPERTIES}, naming its cluster and node, is missing. Nothing was changed. "
        f"Restore the file from a backup, or write it again{note}:\n"
        f"  printf '%s\\n' {' '.join(lines)} > {shlex.quote(f'{disks[root].root}/{META_PROPERTIES}')}"
    )


def _lost_directory_id(node_id: int, metadata: Disk, looks: Mapping[str, _Look], root: str) -> Uuid | None:
    """Returns the id that the metadata has for the directory: that of its partitions, or the only one that belongs to
    no other directory."""
    image = read_image(metadata)
    others = {look.meta.directory_id for look in looks.values() if look.meta is not None}
    assigned: Counter[Uuid] = Counter()
    for folder in looks[root].folders:
        state = image.topics.partition(folder.topic, folder.partition) if folder.kind is Kind.PARTITION else None
        if state is not None and node_id in state.replicas:
            assigned[state.directory_of(node_id)] += 1
    broker = image.brokers.get(node_id)
    registered = [directory for directory in (broker.log_dirs if broker else ()) if directory not in others]
    found = [directory for directory, _ in assigned.most_common() if directory in registered]
    return (found or registered)[0] if found or len(registered) == 1 else None


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
