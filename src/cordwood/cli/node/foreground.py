"""Runs a node in the foreground until SIGINT or SIGTERM, for `cordwood up`."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from cordwood import __version__
from cordwood.broker.start.consent import StartConsent
from cordwood.broker.start.standalone import DEFAULT_HOST, DEFAULT_PORT, node_config
from cordwood.cli.framework.quick import Spelling
from cordwood.cli.node.log_lines import JsonLines, TextLines
from cordwood.cli.terminal.standard_streams import OutputClosed, discard_output
from cordwood.config.broker import BrokerConfig
from cordwood.config.effects import Effect, effect_on_broker, has_effect_on_listener
from cordwood.config.errors import BadConfiguration, ConfigError
from cordwood.config.keys import base_of, definition_of
from cordwood.config.layers import Layer, command_line_layer, environment_layer, file_layer
from cordwood.config.network.listeners import SecurityProtocol
from cordwood.config.own_keys import REGISTRY_ADVERTISED_URL, REGISTRY_KEYSTORE, REGISTRY_LISTENERS
from cordwood.local.places import found_properties
from cordwood.node import CannotStart, Node
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.disk import DiskError
from cordwood.runtime.event_loop import run
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.memory import (
    collect_garbage_rarely,
    give_free_memory_back,
    give_large_blocks_back,
    keep_present_objects,
)
from cordwood.runtime.network import Address, CannotListen, ListenProblem
from cordwood.runtime.process import stop_signals
from cordwood.runtime.randomness import SeededRandom
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import TlsError

if TYPE_CHECKING:
    from cordwood.console.metrics_server import MetricsServer
    from cordwood.registry.server import RegistryServer

_log = logging.getLogger(__name__)

# Variables of the command line, not of the broker.
_OTHER_VARIABLES = (
    "CORDWOOD_BOOTSTRAP",
    "CORDWOOD_CLIENT_CONFIG",
    "CORDWOOD_PROFILE",
    "CORDWOOD_REGISTRY",
    "CORDWOOD_REGISTRY_USER",
    "CORDWOOD_REGISTRY_CA",
    "CORDWOOD_REGISTRY_CERTIFICATE",
    "CORDWOOD_REGISTRY_KEY",
)
# The directory of a local cluster cannot be a single node's directory.
DEFAULT_CLUSTER_DATA = "cordwood-cluster"
_PORTS = range(1 << 16)
_FIRST_UNPRIVILEGED_PORT = 1024
EVERY_ADDRESS = ("0.0.0.0", "::", "")


class LogFormat(Enum):
    TEXT = "text"
    JSON = "json"


class NodeOptions(NamedTuple):
    """The options of `cordwood up`, which are explained there."""

    port: int | None = None
    host: str = DEFAULT_HOST
    data: str | None = None
    config: Path | None = None
    set: Sequence[str] = ()
    ephemeral: bool = False
    log_format: LogFormat = LogFormat.TEXT
    log_level: str = "WARNING"
    metrics_port: int | None = None
    registry_port: int | None = None
    registry_url: str | None = None
    allow_strays: bool = False
    accept_metadata_loss: bool = False
    brokers: int | None = None
    controllers: int | None = None
    as_json: bool = False


# How the options of `cordwood up` are spelled on the command line.
SPELLING = Spelling({"--json": "as_json"})


def run_node(options: NodeOptions) -> int:
    """Returns the exit code; raises `SystemExit` if the node cannot be started."""
    set_up_logging(options.log_format, options.log_level)
    _check_options(options)
    if options.brokers is not None or options.controllers is not None:
        from cordwood.cli.node.local_cluster import run_cluster

        with _ending_on_signals():
            return run_cluster(options)
    _check_data(options.data)
    give_large_blocks_back()
    collect_garbage_rarely()
    with _ending_on_signals(), data_directory(options.data, options.ephemeral) as directory:
        try:
            config = _read_config(
                options.config, options.set, options.host, options.port, directory, options.registry_url
            )
            consent = StartConsent(options.allow_strays, options.accept_metadata_loss)
            return run(_serve(config, consent, options))
        except BadConfiguration as error:
            give_up("\n".join(error.problems))
        except (ConfigError, CannotStart, TlsError, DiskError) as error:
            give_up(str(error))
        except CannotListen as error:
            give_up(f"{error}\n{listen_hint(error)}".strip())


@contextmanager
def _ending_on_signals() -> Iterator[None]:
    """Handles signals until a node has started: the process exits at once, as in a crash, even while it checks its
    logs. Temporary data is removed."""

    def end(number: int, _frame: object) -> NoReturn:
        # Don't log the work interrupted by this.
        logging.disable()
        warnings.simplefilter("ignore")
        raise SystemExit(128 + number)

    former = {number: signal.signal(number, end) for number in stop_signals()}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _check_options(options: NodeOptions) -> None:
    if options.ephemeral and options.data is not None:
        give_up("--ephemeral and --data exclude each other; give one of them")
    for name, port in (
        ("--port", options.port),
        ("--metrics-port", options.metrics_port),
        ("--registry-port", options.registry_port),
    ):
        if port is not None and port not in _PORTS:
            give_up(f"{name} {port}: a port is a number from 0, which takes a free one, to {_PORTS.stop - 1}")
    if options.data is not None and os.path.isfile(options.data):
        give_up(f"--data {options.data} is a file; data goes into a directory")


def _check_data(data: str | None) -> None:
    if data is not None and found_properties(Path(data)):
        give_up(f"{data} holds a cluster: start it with --brokers, as it was made, or give another --data")


def listen_hint(error: CannotListen) -> str:
    """A hint for the operator; empty if there is none."""
    match error.problem:
        case ListenProblem.PORT_TAKEN:
            return (
                "Is another node running? Choose another port with --port (or in listeners); --port 0 takes a free one."
            )
        case ListenProblem.NO_PERMISSION if 0 < error.port < _FIRST_UNPRIVILEGED_PORT:
            return (
                f"Ports below {_FIRST_UNPRIVILEGED_PORT} need privileges. Choose a higher one with --port (or in "
                "listeners), or give the process the capability CAP_NET_BIND_SERVICE."
            )
        case ListenProblem.NO_PERMISSION:
            return "The system does not allow this process to listen there; look at its sandbox or firewall rules."
        case ListenProblem.ADDRESS_NOT_LOCAL:
            return (
                f"This machine has no network interface with the address {error.host}. Listen on an address that it "
                "has with --host (or in listeners), or on all of them with 0.0.0.0, and set advertised.listeners to "
                "the address that clients use."
            )
        case ListenProblem.HOST_UNKNOWN:
            return f"The name {error.host} has no address. Correct --host (or listeners), or use an IP address."
        case ListenProblem.OTHER:
            return ""


def _read_config(
    file: Path | None,
    assignments: Sequence[str],
    host: str,
    port: int | None,
    directory: str | None,
    registry_url: str | None = None,
) -> BrokerConfig:
    layers = said_layers(file, assignments)
    if registry_url is not None:
        layers.append(Layer("--registry-url", {REGISTRY_ADVERTISED_URL: registry_url}))
    if directory is not None:
        layers.append(Layer("--data", {"log.dirs": directory}))
    if port is not None and _have_any(layers, "listeners"):
        raise ConfigError("--port and listeners exclude each other; give one of them")
    if host in EVERY_ADDRESS and not any({"listeners", "advertised.listeners"} & set(said.settings) for said in layers):
        shown_port = DEFAULT_PORT if port is None else port
        raise ConfigError(
            f"--host {host} listens on every address of this machine, and clients need to know which one to connect "
            "to: set advertised.listeners to a name or an address of this machine, for example\n"
            f"  --set advertised.listeners=PLAINTEXT://{os.uname().nodename or 'broker1.example.com'}:{shown_port}"
        )
    config = node_config(*layers, host=host, port=DEFAULT_PORT if port is None else port)
    if not config.stands_alone and (port is not None or host != DEFAULT_HOST):
        raise ConfigError(
            "--port and --host are for a standalone node; this one belongs to a cluster: set listeners (and "
            "advertised.listeners) in its configuration"
        )
    _tell_what_does_nothing(layers)
    _tell_of_missing_tls(layers, config)
    return config


def said_layers(file: Path | None, assignments: Sequence[str]) -> list[Layer]:
    """Returns the sources of a node's settings: the file, the environment, `--set`. Raises `ConfigError`."""
    layers = []
    if file is not None:
        try:
            layers.append(file_layer(file.read_text(encoding="utf-8"), str(file)))
        except OSError as error:
            raise ConfigError(f"--config {file}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise ConfigError(f"--config {file}: this is not UTF-8 text, at byte {error.start}") from error
    layers.append(environment_layer(os.environ, _OTHER_VARIABLES))
    layers.append(command_line_layer(assignments))
    return layers


def _have_any(layers: Sequence[Layer], *names: str) -> bool:
    return any(name in layer.settings for layer in layers for name in names)


@contextmanager
def data_directory(data: str | None, ephemeral: bool) -> Iterator[str | None]:
    if not ephemeral:
        yield data
        return
    import tempfile

    with tempfile.TemporaryDirectory(prefix="cordwood-", ignore_cleanup_errors=True) as directory:
        yield directory


def _tell_what_does_nothing(layers: list[Layer]) -> None:
    """Logs each key that was set and has no effect here, so that nothing is ignored silently."""
    for name in dict.fromkeys(name for layer in layers for name in layer.settings):
        if definition_of(name) is None:
            continue
        base = base_of(name)
        rule = effect_on_broker(base or name)
        # A key that would be refused otherwise has Kafka's default here.
        if rule.effect in (Effect.LATER, Effect.NEVER):
            why = "yet" if rule.effect is Effect.LATER else f"here: {rule.note}"
            _log.warning("%s is set and has no effect %s", name, why)
        elif base is not None and not has_effect_on_listener(base):
            _log.warning("%s is set and has no effect here: set %s, which is for all listeners", name, base)


def _tell_of_missing_tls(layers: list[Layer], config: BrokerConfig) -> None:
    """Logs settings of TLS on a node without it: a keystore is easily configured, and the listener for it forgotten."""
    listeners = config.listeners
    names = {*(endpoint.listener for endpoint in listeners.bound), *listeners.controllers}
    if any(listeners.protocols.get(name) is SecurityProtocol.SSL for name in names):
        return
    about_tls = [name for layer in layers for name in layer.settings if (base_of(name) or name).startswith("ssl.")]
    if about_tls:
        _log.warning(
            "No listener uses TLS, so nothing is encrypted: %s would be for listeners that begin with SSL://",
            ", ".join(dict.fromkeys(about_tls)),
        )


async def _serve(config: BrokerConfig, consent: StartConsent, options: NodeOptions) -> int:
    network, clock, metrics_port = SocketNetwork(), SystemClock(), options.metrics_port
    metrics = None if metrics_port is None else await serve_metrics(network, clock, options.host, metrics_port)
    node = await Node.start(
        config,
        network=network,
        clock=clock,
        random=SeededRandom(),
        open_disk=LocalDisk,
        consent=consent,
        measures=None if metrics is None else metrics.measures,
    )
    if metrics is not None:
        metrics.show(node)
    registries: list[RegistryServer] = []
    listeners = [*config.items(REGISTRY_LISTENERS)]
    if options.registry_port is not None:
        scheme = "http" if config[REGISTRY_KEYSTORE] is None else "https"
        listeners.append(f"{scheme}://{Address(options.host, options.registry_port)}")
    try:
        if listeners:
            # Imported only if enabled, like HTTP for metrics.
            from cordwood.cli.node.registry import serve_registry
        for listener in listeners:
            registries.append(await serve_registry(network, clock, node, listener))  # noqa: PERF401
    except BaseException:
        for registry in registries:
            await registry.stop()
        await node.stop()
        raise
    keep_present_objects()
    give_free_memory_back()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, node.stopped.set)
    told = "" if metrics is None else f", metrics at {metrics.url}"
    told += "".join(f", schema registry at {registry.url}" for registry in registries)
    try:
        if options.as_json:
            urls = [registry.url for registry in registries]
            announce_json(node.bootstrap, config.log_dirs, metrics=metrics and metrics.url, registries=urls)
        else:
            announce(f"bootstrap {node.bootstrap}, data in {', '.join(config.log_dirs)}{told}")
        await node.stopped.wait()
    finally:
        if metrics is not None:
            await metrics.stop()
        for registry in registries:
            await registry.stop()
        await node.stop()
    return 0 if node.failure is None else 1


def announce(told: str) -> None:
    _print_line(f"Cordwood {__version__} is ready: {told}")


def announce_json(bootstrap: str, data: Sequence[str], **more: Any) -> None:
    """One line, so that a program which reads it knows where it ends."""
    ready = {"version": __version__, "bootstrap": bootstrap, "data": list(data), **more}
    _print_line(json.dumps(ready, ensure_ascii=False))


def _print_line(line: str) -> None:
    try:
        print(line, flush=True)
    except OutputClosed:
        # A node that was started without standard output has no reader for this line.
        discard_output()


async def serve_metrics(network: SocketNetwork, clock: SystemClock, host: str, port: int) -> MetricsServer:
    # Imported only if enabled: without metrics a node starts faster and stays smaller.
    from cordwood.console.metrics_server import MetricsServer

    try:
        return await MetricsServer.listen(network, clock, host, port)
    except CannotListen as error:
        raise CannotStart(f"--metrics-port {port}: {error}") from error


def set_up_logging(log_format: LogFormat, level: str, node: str | None = None) -> None:
    """Configures logging. `node` is added to every line, for several nodes that write to one stream."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        give_up(f"--log-level {level}: allowed are DEBUG, INFO, WARNING, ERROR")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines(node) if log_format is LogFormat.JSON else TextLines(node))
    logging.basicConfig(level=number, handlers=[handler], force=True)


def give_up(message: str) -> NoReturn:
    print(f"cordwood up: {message}", file=sys.stderr)
    raise SystemExit(2)
