"""The node's directories: taken for this process, formatted where they are new, checked to belong together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cordwood.config.broker import BrokerConfig
from cordwood.log.checkpoint import META_PROPERTIES, CorruptCheckpoint, MetaProperties
from cordwood.log.directory import NO_ID
from cordwood.metadata.bootstrap import format_directory
from cordwood.metadata.controller.decision import new_uuid
from cordwood.metadata.endpoints import wire_endpoint
from cordwood.metadata.log import METADATA_DIRECTORY
from cordwood.runtime.disk import Disk, DiskError
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import Random
from cordwood.wire.primitives import Uuid, uuid_from_text, uuid_text

_log = logging.getLogger(__name__)


class CannotStart(Exception):
    """The node cannot start; the text says why, for a person."""


@dataclass(frozen=True, slots=True)
class LogDirs:
    """The node's directories, and who they say the node is."""

    cluster_id: str
    # In the order of `log.dirs`. One that cannot be used is there too, and without an id.
    disks: tuple[Disk, ...]
    broker_ids: tuple[Uuid, ...]
    # The one that holds the metadata log; it may be one of them.
    metadata: Disk


def take_directories(config: BrokerConfig, open_disk: Callable[[str], Disk], random: Random, now_ms: int) -> LogDirs:
    """Raises `CannotStart` where another process has one of them, they are not this node's, or none can be used. One
    that cannot is left out, as in Kafka, unless it is the metadata's."""
    roots = tuple(dict.fromkeys(config.log_dirs))
    metadata_root = str(config["metadata.log.dir"] or roots[0])
    disks = {root: open_disk(root) for root in dict.fromkeys([*roots, metadata_root])}
    try:
        return _taken(config, disks, roots, metadata_root, random, now_ms)
    except BaseException:
        for disk in disks.values():
            disk.close()
        raise


def _taken(
    config: BrokerConfig,
    disks: Mapping[str, Disk],
    roots: Sequence[str],
    metadata_root: str,
    random: Random,
    now_ms: int,
) -> LogDirs:
    known: dict[str, MetaProperties | None] = {}
    for root, disk in disks.items():
        try:
            if not disk.lock():
                raise CannotStart(
                    f"{root} is in use by another process: stop it, or give this one a directory of its own "
                    "(--data, or log.dirs)"
                )
            known[root] = _read_meta(root, disk)
        except DiskError as error:
            if root == metadata_root:
                raise CannotStart(f"{error}. The node cannot start without its metadata log") from error
            _log.error("%s; the node starts without it", error)
    if not set(roots) & known.keys():
        raise CannotStart("none of the log directories can be used")
    _check_meta(config, known)
    cluster_id = next((meta.cluster_id for meta in known.values() if meta is not None), None)
    if cluster_id is None:
        cluster_id = uuid_text(new_uuid(random))
    ids: dict[str, Uuid] = {}
    # The metadata's directory last: it is what says that the node is formatted.
    for root, meta in sorted(known.items(), key=lambda entry: entry[0] == metadata_root):
        if meta is None:
            ids[root] = _format(config, disks[root], cluster_id, random, now_ms, holds_metadata=root == metadata_root)
        else:
            ids[root] = uuid_from_text(meta.directory_id)
    return LogDirs(
        cluster_id,
        tuple(disks[root] for root in roots),
        tuple(ids.get(root, NO_ID) for root in roots),
        disks[metadata_root],
    )


def _read_meta(root: str, disk: Disk) -> MetaProperties | None:
    data = disk.read_file(META_PROPERTIES)
    if data is None:
        return None
    try:
        return MetaProperties.decode(f"{root}/{META_PROPERTIES}", data)
    except CorruptCheckpoint as error:
        raise CannotStart(str(error)) from error


def _check_meta(config: BrokerConfig, known: Mapping[str, MetaProperties | None]) -> None:
    clusters: dict[str, str] = {}
    for root, meta in known.items():
        if meta is None:
            continue
        if meta.node_id != config.node_id:
            raise CannotStart(f"{root} belongs to node {meta.node_id}, and this node's node.id is {config.node_id}")
        clusters.setdefault(meta.cluster_id, root)
    if len(clusters) > 1:
        told = ", ".join(f"{root} is of cluster {cluster}" for cluster, root in clusters.items())
        raise CannotStart(f"the log directories do not belong together: {told}")


def _format(
    config: BrokerConfig, disk: Disk, cluster_id: str, random: Random, now_ms: int, *, holds_metadata: bool
) -> Uuid:
    directory_id = new_uuid(random)
    if holds_metadata and not disk.exists(METADATA_DIRECTORY):
        endpoints = [
            wire_endpoint(end, Address(end.host or "localhost", end.port))
            for end in config.listeners.advertised_controllers
        ]
        format_directory(disk, config.node_id, directory_id, endpoints, now_ms=now_ms)
    meta = MetaProperties(cluster_id, config.node_id, uuid_text(directory_id))
    disk.write_file(META_PROPERTIES, meta.encode(now_ms))
    return directory_id
