"""Formats a node's directories, with the options, the checks and the files of `kafka-storage format`."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from cordwood.config.broker import BrokerConfig
from cordwood.config.quorum import InitialController
from cordwood.log.checkpoints.formats import META_PROPERTIES, CorruptCheckpoint, MetaProperties
from cordwood.metadata.bootstrap import first_voter, format_directory
from cordwood.metadata.image import METADATA_VERSION
from cordwood.metadata.releases import UnsupportedLevels, initial_levels, release_name
from cordwood.raft.identity import Endpoint
from cordwood.raft.voters import VoterSet
from cordwood.runtime.disk import Disk, DiskError
from cordwood.runtime.network import Address
from cordwood.runtime.randomness import Random, new_uuid
from cordwood.wire.primitives import Uuid


class CannotFormat(Exception):
    """Formatting is not possible; the text says why."""


@dataclass(frozen=True, slots=True)
class Formatting:
    """The options of `cordwood format`. At most one of the three that name the initial controllers is given."""

    cluster_id: str
    standalone: bool = False
    initial_controllers: Sequence[InitialController] = ()
    no_initial_controllers: bool = False
    levels: Mapping[str, int] = field(default_factory=dict)
    release: str | None = None
    ignore_formatted: bool = False


def format_node(
    config: BrokerConfig,
    formatting: Formatting,
    open_disk: Callable[[str], Disk],
    random: Random,
    now_ms: int,
    tell: Callable[[str], None],
) -> dict[str, Uuid]:
    """Formats the unformatted directories; `tell` is called with a line about each. Returns their ids, by directory.
    Raises CannotFormat, before anything is written, or DiskError."""
    voters = _initial_voters(config, formatting, random)
    try:
        levels = initial_levels(formatting.levels, formatting.release, is_dynamic=not config.quorum.is_static)
        release = release_name(levels[METADATA_VERSION])
    except UnsupportedLevels as error:
        raise CannotFormat(str(error)) from error
    disks: dict[str, Disk] = {}
    formatted: dict[str, Uuid] = {}
    try:
        for root in sorted({*config.log_dirs, config.metadata_log_dir}):
            disks[root] = open_disk(root)
        unformatted = _unformatted(config, formatting, disks, tell)
        if not unformatted:
            tell("All of the log directories are already formatted.")
        # The metadata directory comes last: without it a node counts as unformatted.
        for root in sorted(unformatted, key=lambda root: (root == config.metadata_log_dir, root)):
            is_metadata = root == config.metadata_log_dir
            own = voters.get(config.node_id) if voters is not None and is_metadata else None
            tell(f"Formatting {_kind(is_metadata, voters, own is not None)} {root} with metadata.version {release}.")
            format_directory(disks[root], voters if is_metadata else None, now_ms=now_ms, levels=levels)
            directory_id = new_uuid(random) if own is None else own.key.directory_id
            written = MetaProperties(formatting.cluster_id, config.node_id, directory_id)
            disks[root].write_file(META_PROPERTIES, written.encode(now_ms))
            formatted[root] = directory_id
        return formatted
    finally:
        for disk in disks.values():
            disk.close()


def _initial_voters(config: BrokerConfig, formatting: Formatting, random: Random) -> VoterSet | None:
    controllers: Sequence[InitialController] = formatting.initial_controllers
    is_controller = "controller" in config.items("process.roles")
    if config.quorum.is_static and (formatting.standalone or controllers):
        raise CannotFormat(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    if formatting.standalone:
        if not is_controller:
            raise CannotFormat("You can only use --standalone on a controller.")
        controllers = [_itself(config, new_uuid(random))]
    if controllers:
        listener = config.quorum.listener
        return VoterSet(
            first_voter(
                each.node_id, each.directory_id, {listener: Endpoint(_spelled(each.address.host), each.address.port)}
            )
            for each in controllers
        )
    if is_controller and not config.quorum.is_static and not formatting.no_initial_controllers:
        raise CannotFormat(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None


def _spelled(host: str) -> str:
    """Formats an address as Kafka does, so that all controllers start with the same bytes: all eight groups of an IPv6
    address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if address.version == 4:
        return host
    return ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))


def _itself(config: BrokerConfig, directory_id: Uuid) -> InitialController:
    endpoint = config.listeners.advertised_controllers[0]
    return InitialController(config.node_id, Address(endpoint.host or "localhost", endpoint.port), directory_id)


def _unformatted(
    config: BrokerConfig, formatting: Formatting, disks: Mapping[str, Disk], tell: Callable[[str], None]
) -> list[str]:
    unformatted, formatted = [], []
    for root, disk in disks.items():
        try:
            meta = _meta_of(root, disk)
        except DiskError:
            tell(f"I/O error trying to read log directory {root}. Ignoring...")
            continue
        if meta is None:
            unformatted.append(root)
        else:
            formatted.append(root)
            _check(config, formatting, root, meta)
    if not unformatted and not formatted:
        raise CannotFormat("No available log directories to format.")
    if formatted and not formatting.ignore_formatted:
        raise CannotFormat(
            f"Log directory {formatted[0]} is already formatted. Use --ignore-formatted to ignore this directory and "
            "format the others."
        )
    return unformatted


def _meta_of(root: str, disk: Disk) -> MetaProperties | None:
    data = disk.read_file(META_PROPERTIES)
    try:
        return None if data is None else MetaProperties.decode(f"{root}/{META_PROPERTIES}", data)
    except CorruptCheckpoint as error:
        raise CannotFormat(f"{error}. Restore the file from a backup, or remove it to format the directory") from error


def _check(config: BrokerConfig, formatting: Formatting, root: str, meta: MetaProperties) -> None:
    if meta.cluster_id != formatting.cluster_id:
        raise CannotFormat(
            f"Invalid cluster.id in: {root}/{META_PROPERTIES}. Expected {formatting.cluster_id}, but read "
            f"{meta.cluster_id}"
        )
    if meta.node_id != config.node_id:
        raise CannotFormat(
            f"Stored node id {meta.node_id} doesn't match previous node id {config.node_id} in "
            f"{root}/{META_PROPERTIES}. If you moved your data, make sure your configured node id matches. If you "
            "intend to create a new node, you should remove all data in your data directories."
        )


def _kind(is_metadata: bool, voters: VoterSet | None, is_voter: bool) -> str:
    if not is_metadata:
        return "data directory"
    if voters is None:
        return "metadata directory"
    return "dynamic metadata voter directory" if is_voter else "dynamic metadata directory"
