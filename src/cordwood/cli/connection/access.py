"""Access of commands to a cluster: connection options, and running a command's work.

@reaching_cluster
def describe(access: Access, name: ...) -> None:
    run(access, partial(_describe, name=name))

Without typer, so that `produce` and `consume` can start without it.
"""

import asyncio
import functools
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Concatenate, NoReturn, ParamSpec, TypeVar, get_type_hints

from cordwood.cli.connection.profiles import Profiles
from cordwood.cli.framework.quick import Spelling, quick_arguments
from cordwood.cli.terminal.output import warn
from cordwood.client.addresses import DEFAULT_BOOTSTRAP, parse_bootstrap
from cordwood.client.errors import BadSetting, CannotReachCluster, ClientError, TopicNotFound
from cordwood.client.settings import AdminSettings, Settings
from cordwood.runtime import event_loop
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientTls, KeyPair, TlsError

if TYPE_CHECKING:
    from cordwood.cli.connection.client_properties import PropertyLayer
    from cordwood.client.admin.admin import Admin

P = ParamSpec("P")
S = TypeVar("S", bound=Settings)
T = TypeVar("T")

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_UNREACHABLE = 3
EXIT_INTERRUPTED = 130
# The shells' convention: the exit code of a process that a signal ended is 128 plus the signal's number.
_EXIT_BY_SIGNAL = 128

BOOTSTRAP_VARIABLE = "CORDWOOD_BOOTSTRAP"
CLIENT_CONFIG_VARIABLE = "CORDWOOD_CLIENT_CONFIG"
PROFILE_VARIABLE = "CORDWOOD_PROFILE"

DEFAULT_TIMEOUT_S = 30.0


class BadOption(Exception):
    """An option's value is invalid; reported in typer's format."""

    def __init__(self, reason: str, option: str) -> None:
        super().__init__(reason)
        self.option = option


@dataclass(frozen=True, slots=True)
class Access:
    """Connection options of the command line; None if not given.

    Options on the command line take precedence, single options before `client_config` before `profile`; then
    environment variables, in the same order; then the profile in use.
    """

    bootstrap: str | None = None
    client_config: str | None = None
    profile: str | None = None
    timeout_s: float | None = None
    tls: bool | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    tls_key_password: str | None = None
    tls_any_host: bool = False

    def settings(self) -> AdminSettings:
        """Raises `BadSetting` or `TlsError`."""
        return self.settings_of(AdminSettings)

    def settings_of(self, kind: type[S], defaults: Mapping[str, Any] | None = None, **own: Any) -> S:
        """Returns the settings of a client of that kind. `own` are set by the command; `defaults` apply to settings
        that nothing else sets."""
        if self.timeout_s is not None and self.timeout_s < 0.1:
            raise BadSetting(f"--timeout is {self.timeout_s:g}; expected 0.1 s or more")
        asked = self._timeouts(self.timeout_s) if self.timeout_s is not None else {}
        assumed = (
            self._timeouts(DEFAULT_TIMEOUT_S)
            # A user who follows a topic wants to see new partitions soon.
            | {"client_id": "cordwood-cli", "metadata_max_age_ms": 10_000}
            | dict(defaults or {})
        )
        layers = self._layers()
        if layers:
            from cordwood.cli.connection.client_properties import settings_from

            settings = settings_from(kind, layers, assumed)
        else:
            # A shortcut for the common case, which doesn't import the property parser.
            bootstrap = self.bootstrap or os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
            settings = kind(bootstrap_servers=parse_bootstrap(bootstrap), **assumed)
        if self.bootstrap is not None:
            asked["bootstrap_servers"] = parse_bootstrap(self.bootstrap)
        if self._says_tls:
            asked["tls"] = self._client_tls()
        return replace(settings, **asked | own)

    def _layers(self) -> "list[PropertyLayer]":
        """Files, profiles and variables; the first counts before the others. Empty without a file or profile"""
        bootstrap = os.environ.get(BOOTSTRAP_VARIABLE)
        file = self.client_config or os.environ.get(CLIENT_CONFIG_VARIABLE)
        profiles = Profiles.of_user()
        name = self.profile or os.environ.get(PROFILE_VARIABLE) or profiles.current
        if not name and not file:
            return []
        from cordwood.cli.connection.client_properties import PropertyLayer, read_property_file

        of_file = [read_property_file(file)] if file else []
        of_profile = [read_property_file(profiles.path(name), f"profile {name}")] if name else []
        of_variable = [PropertyLayer(BOOTSTRAP_VARIABLE, {"bootstrap.servers": bootstrap})] if bootstrap else []
        said = (of_file if self.client_config else []) + (of_profile if self.profile else [])
        return said + of_variable + [layer for layer in of_file + of_profile if layer not in said]

    @staticmethod
    def _timeouts(timeout_s: float) -> dict[str, Any]:
        return {
            "default_api_timeout_ms": round(timeout_s * 1000),
            "request_timeout_ms": round(min(timeout_s, 30) * 1000),
            "socket_connection_setup_timeout_ms": round(min(timeout_s, 10) * 1000),
        }

    @property
    def _says_tls(self) -> bool:
        return self.tls is not None or self.tls_any_host or any((self.tls_ca, self.tls_cert, self.tls_key))

    def _client_tls(self) -> ClientTls | None:
        """TLS options on the command line replace everything that files and profiles say about TLS."""
        if self.tls is False:
            return None
        if self.tls_key is not None and self.tls_cert is None:
            raise BadSetting("--tls-key needs --tls-cert")
        keys = None if self.tls_cert is None else KeyPair(self.tls_cert, self.tls_key, self.tls_key_password)
        return ClientTls(self.tls_ca, keys, check_hostname=not self.tls_any_host)


ACCESS_SPELLING = {"-b": "bootstrap", "--timeout": "timeout_s"}


def reaching_cluster(function: Callable[Concatenate[Access, P], None]) -> Callable[..., None]:
    """Appends the options of `Access` to a command's own."""
    import typer

    from cordwood.cli.connection.access_options import access_options

    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(access_options).parameters.values())
    names = [parameter.name for parameter in shared]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        access = Access(**{name: given.pop(name) for name in names})
        try:
            function(access, **given)  # type: ignore[call-arg]  # typer calls by name
        except BadOption as error:
            raise typer.BadParameter(str(error), param_hint=error.option) from error

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own + shared]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    hints = get_type_hints(function, include_extras=True) | get_type_hints(access_options, include_extras=True)
    command.__annotations__ = {parameter.name: hints[parameter.name] for parameter in parameters}
    return command


def run_quickly(
    command: Callable[[Access, Any], None], options_class: type[Any], words: Sequence[str], spelling: Spelling
) -> None:
    """Runs a command without typer and exits; returns if the arguments need typer (help, completion, errors)."""
    arguments = quick_arguments((Access, options_class), words, spelling)
    if arguments is None or spelling.positional[0] not in arguments:
        return
    access = Access(**{field.name: arguments.pop(field.name) for field in fields(Access) if field.name in arguments})
    try:
        command(access, options_class(**arguments))
    except BadOption:
        return
    raise SystemExit(0)


def run(access: Access, work: "Callable[[Admin], Coroutine[Any, Any, T]]") -> T:
    """An error of `work` becomes one line and an exit code; Ctrl-C, SIGTERM and SIGHUP end it quietly."""
    from cordwood.cli.framework.hints import explain_missing_topic
    from cordwood.client.admin.admin import Admin

    async def main() -> T:
        async with Admin(access.settings(), network=SocketNetwork()) as admin:
            try:
                return await work(admin)
            except TopicNotFound as error:
                raise await explain_missing_topic(admin, error) from error

    return run_alone(main)


def run_alone(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Like `run`, for work without an admin client, whose import takes longer than everything else."""
    received: list[int] = []

    async def cancellable() -> T:
        _cancel_on_signals(received)
        return await main()

    try:
        return event_loop.run(cancellable())
    except asyncio.CancelledError:
        if not received:
            raise
        raise SystemExit(_EXIT_BY_SIGNAL + received[0]) from None
    except CannotReachCluster as error:
        hint = ""
        if "refused" in str(error):
            hint = " (is a node running there? cordwood up starts one)"
        elif "closed the connection during the TLS handshake" in str(error):
            hint = " (does it listen without TLS?)"
        fail(f"{error}{hint}", EXIT_UNREACHABLE)
    except (BadSetting, TlsError) as error:
        fail(str(error), EXIT_BAD_INPUT)
    except ClientError as error:
        from cordwood.cli.framework.hints import explain

        fail(explain(error), EXIT_FAILED)
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None


def _cancel_on_signals(received: list[int]) -> None:
    """Has SIGTERM and SIGHUP cancel the current task, as asyncio does for Ctrl-C, so that consumers leave their group.

    A signal that this process was told to ignore, as `nohup` does, stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        # Python allows signal handlers in the main thread only.
        return
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def cancel(number: int) -> None:
        received.append(number)
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            loop.add_signal_handler(number, cancel, number)


def fail(reason: str, exit_code: int = EXIT_FAILED) -> NoReturn:
    print(f"cordwood: {reason}", file=sys.stderr)
    raise SystemExit(exit_code)


def end_with(failures: Sequence[ClientError]) -> None:
    """Prints a line per error and exits with the code; does nothing if there are none."""
    from cordwood.cli.framework.hints import explain

    for failure in failures[:-1]:
        warn(explain(failure))
    if failures:
        fail(explain(failures[-1]))
