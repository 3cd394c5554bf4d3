"""Runs several nodes in the foreground until SIGINT or SIGTERM, for `cordwood up --brokers 3`."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cordwood.broker.start.consent import StartConsent
from cordwood.broker.start.standalone import DEFAULT_HOST, DEFAULT_PORT
from cordwood.cli.node.foreground import (
    DEFAULT_CLUSTER_DATA,
    EVERY_ADDRESS,
    NodeOptions,
    announce,
    announce_json,
    data_directory,
    give_up,
    listen_hint,
    said_layers,
    serve_metrics,
    set_up_logging,
)
from cordwood.cli.terminal.output import print_table
from cordwood.config.errors import ConfigError
from cordwood.config.own_keys import REGISTRY_KEYSTORE
from cordwood.local.folder import BadFolder, ClusterFolder
from cordwood.local.layout import CONTROLLER_PORT_OFFSET, Layout, Member
from cordwood.local.node_child import run_node
from cordwood.local.supervisor import ChildFailed, Program, Report, Supervisor
from cordwood.node import Node
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.network import Address, CannotListen
from cordwood.runtime.sockets import SocketNetwork

if TYPE_CHECKING:
    from cordwood.registry.server import RegistryServer

_log = logging.getLogger(__name__)

# Ports for clients are below those for controllers, which begin 100 above.
_MOST = CONTROLLER_PORT_OFFSET
_HIGHEST_PORT = (1 << 16) - 1


def run_cluster(options: NodeOptions) -> int:
    """Returns the exit code; raises `SystemExit` if the cluster cannot be started."""
    layout = _layout(options)
    try:
        # Check before any process is started.
        said_layers(None, options.set)
    except ConfigError as error:
        give_up(str(error))
    with data_directory(options.data, options.ephemeral) as directory:
        root = Path(directory or DEFAULT_CLUSTER_DATA)
        host = None if options.host == DEFAULT_HOST else options.host
        try:
            folder = ClusterFolder.open_or_create(root, layout, host, options.port)
        except (BadFolder, DiskError) as error:
            give_up(str(error))
        except OSError as error:
            give_up(f"{error.filename or root}: {error.strerror}")
        except CannotListen as error:
            give_up(f"{error}\n{listen_hint(error)}".strip())
        programs = [
            Program(_name(member), partial(_run_member, options, folder, number), stage=member.stop_stage)
            for number, member in enumerate(folder.members)
        ]
        with Supervisor(programs) as supervisor:
            try:
                ready = supervisor.start()
            except ChildFailed as error:
                give_up(str(error))
            if len(ready) == len(programs):
                urls = [url for said in ready.values() for url in said["companions"]]
                _print_ready(folder, supervisor, urls, as_json=options.as_json)
            supervisor.watch()
    return 0


def _layout(options: NodeOptions) -> Layout:
    brokers, controllers = options.brokers or 0, options.controllers or 0
    if options.registry_url is not None:
        give_up("--registry-url is for one node, and not for --brokers")
    if options.config is not None:
        give_up("--config is for one node; settings of all nodes of --brokers are given with --set")
    if brokers < 1 or controllers < 0:
        give_up(
            "--brokers and --controllers: give numbers of nodes, such as --brokers 3 or --brokers 3 --controllers 3"
        )
    if brokers > _MOST or controllers > _MOST:
        give_up(f"--brokers and --controllers: more than {_MOST} nodes of a kind are not for one machine")
    if options.host in EVERY_ADDRESS:
        give_up(
            f"--host {options.host!r} is not for --brokers: clients and the nodes themselves need an address of this "
            "machine that they can connect to"
        )
    layout = Layout(brokers, controllers)
    first = DEFAULT_PORT if options.port is None else options.port
    highest = max(max(member.broker_port, member.controller_port) for member in layout.members(first))
    if highest > _HIGHEST_PORT:
        give_up(f"--port {first}: the nodes would need ports up to {highest}, and the highest is {_HIGHEST_PORT}")
    return layout


def _run_member(options: NodeOptions, folder: ClusterFolder, number: int, report: Report, supervisor: int) -> int:
    """The entry point of a node's process."""
    member = folder.members[number]
    set_up_logging(options.log_format, options.log_level, node=_name(member))
    layers = [*folder.layers(member), *said_layers(None, options.set)]
    watch = None
    if options.metrics_port is not None:
        port = options.metrics_port + number if options.metrics_port else 0
        watch = partial(serve_metrics, SocketNetwork(), SystemClock(), options.host, port)
    accompany = None
    if options.registry_port is not None and member.is_broker:
        # One after the other, as the ports of the brokers themselves.
        port = options.registry_port + number if options.registry_port else 0
        accompany = partial(_serve_registry, Address(folder.host, port))
    consent = StartConsent(options.allow_strays, options.accept_metadata_loss)
    return run_node(layers, consent, report, supervisor, watch, accompany)


async def _serve_registry(address: Address, node: Node) -> list[RegistryServer]:
    # Imported only if enabled.
    from cordwood.cli.node.registry import serve_registry

    scheme = "http" if node.config[REGISTRY_KEYSTORE] is None else "https"
    return [await serve_registry(SocketNetwork(), SystemClock(), node, f"{scheme}://{address}")]


def _name(member: Member) -> str:
    return f"node {member.id}"


def _print_ready(folder: ClusterFolder, supervisor: Supervisor, registries: list[str], *, as_json: bool) -> None:
    brokers = ",".join(str(Address(folder.host, member.broker_port)) for member in folder.members if member.is_broker)
    rows = [
        (
            member.id,
            member.roles,
            str(Address(folder.host, member.broker_port)) if member.is_broker else None,
            str(Address(folder.host, member.controller_port)) if member.is_controller else None,
            f"rack-{member.id}" if member.is_broker else None,
            supervisor.pid(_name(member)),
        )
        for member in folder.members
    ]
    if as_json:
        nodes = [dict(zip(("id", "roles", "clients", "controllers", "rack", "pid"), row, strict=True)) for row in rows]
        announce_json(brokers, [str(folder.root)], nodes=nodes, registries=registries)
    else:
        told = f", schema registries at {','.join(registries)}" if registries else ""
        announce(f"bootstrap {brokers}, data in {folder.root}{told}")
        print_table(("node", "roles", "clients", "controllers", "rack", "process"), rows, kind="node")
