"""How a command reaches a cluster: the options that all of them share, and running their work.

@reaching_cluster
def describe(access: Access, name: ...) -> None:
    run(access, partial(_describe, name=name))
"""

import asyncio
import functools
import inspect
import signal
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, Concatenate, NoReturn, ParamSpec, TypeVar, get_type_hints

import typer

from cordwood.cli.hints import explain, explain_missing_topic
from cordwood.cli.output import warn
from cordwood.client.addresses import DEFAULT_BOOTSTRAP, parse_bootstrap
from cordwood.client.admin.admin import Admin
from cordwood.client.errors import BadSetting, CannotReachCluster, ClientError, TopicNotFound
from cordwood.client.settings import AdminSettings, Settings
from cordwood.runtime import event_loop
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientTls, KeyPair, TlsError

P = ParamSpec("P")
S = TypeVar("S", bound=Settings)
T = TypeVar("T")

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_UNREACHABLE = 3
EXIT_INTERRUPTED = 130
# As shells have it: a process that a signal ended has this, plus the signal's number.
_EXIT_BY_SIGNAL = 128

_PANEL = "Connection"


@dataclass(frozen=True, slots=True)
class Access:
    bootstrap: str
    timeout_s: float
    tls: bool
    tls_ca: str | None
    tls_cert: str | None
    tls_key: str | None
    tls_key_password: str | None
    tls_any_host: bool

    def settings(self) -> AdminSettings:
        """Raises `BadSetting` or `TlsError`."""
        if self.tls_key is not None and self.tls_cert is None:
            raise BadSetting("--tls-key needs --tls-cert")
        return AdminSettings(
            bootstrap_servers=tuple(parse_bootstrap(self.bootstrap)),
            client_id="cordwood-cli",
            tls=self._client_tls(),
            default_api_timeout_ms=round(self.timeout_s * 1000),
            request_timeout_ms=round(min(self.timeout_s, 30) * 1000),
            socket_connection_setup_timeout_ms=round(min(self.timeout_s, 10) * 1000),
            # Whoever watches a topic wants to see its new partitions soon.
            metadata_max_age_ms=10_000,
        )

    def settings_of(self, kind: type[S], **own: Any) -> S:
        """As `settings`, with those that only a client of that kind has."""
        shared = self.settings()
        return kind(**{field.name: getattr(shared, field.name) for field in fields(shared)}, **own)

    def _client_tls(self) -> ClientTls | None:
        if not self.tls and self.tls_ca is None and self.tls_cert is None and not self.tls_any_host:
            return None
        keys = None if self.tls_cert is None else KeyPair(self.tls_cert, self.tls_key, self.tls_key_password)
        return ClientTls(self.tls_ca, keys, check_hostname=not self.tls_any_host)


def _options(
    *,
    bootstrap: Annotated[
        str,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT",
            envvar="CORDWOOD_BOOTSTRAP",
            help="Brokers to begin with, with commas between.",
            rich_help_panel=_PANEL,
        ),
    ] = DEFAULT_BOOTSTRAP,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            help="How long to go on trying while brokers fail to answer.",
            rich_help_panel=_PANEL,
        ),
    ] = 30.0,
    tls: Annotated[
        bool, typer.Option("--tls", help="Connect with TLS; the other --tls options imply it.", rich_help_panel=_PANEL)
    ] = False,
    tls_ca: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Certificates to trust (PEM), instead of the system's.", rich_help_panel=_PANEL
        ),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="Our own certificate (PEM).", rich_help_panel=_PANEL)
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Its key (PEM), if it is in another file.", rich_help_panel=_PANEL),
    ] = None,
    tls_key_password: Annotated[
        str | None, typer.Option(metavar="PASSWORD", help="What the key is encrypted with.", rich_help_panel=_PANEL)
    ] = None,
    tls_any_host: Annotated[
        bool,
        typer.Option(
            "--tls-any-host", help="Do not ask for the host's name in a broker's certificate.", rich_help_panel=_PANEL
        ),
    ] = False,
) -> None:
    """The options of `Access`, as typer reads them."""


def reaching_cluster(function: Callable[Concatenate[Access, P], None]) -> Callable[..., None]:
    """Gives a command the options of `Access` behind its own."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(_options).parameters.values())
    names = [parameter.name for parameter in shared]

    @functools.wraps(function)
    def command(**given: Any) -> None:
        access = Access(**{name: given.pop(name) for name in names})
        function(access, **given)  # type: ignore[call-arg]  # typer calls by name

    parameters = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own + shared]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    hints = get_type_hints(function, include_extras=True) | get_type_hints(_options, include_extras=True)
    command.__annotations__ = {parameter.name: hints[parameter.name] for parameter in parameters}
    return command


def run(access: Access, work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
    """An error of `work` becomes one line and an exit code; Ctrl-C, SIGTERM and SIGHUP end it quietly."""
    received: list[int] = []

    async def main() -> T:
        _cancel_on_signals(received)
        async with Admin(access.settings(), network=SocketNetwork()) as admin:
            try:
                return await work(admin)
            except TopicNotFound as error:
                raise await explain_missing_topic(admin, error) from error

    try:
        return event_loop.run(main())
    except asyncio.CancelledError:
        if not received:
            raise
        raise typer.Exit(_EXIT_BY_SIGNAL + received[0]) from None
    except CannotReachCluster as error:
        hint = ""
        if "refused" in str(error):
            hint = " (is a node running there? cordwood up starts one)"
        elif "hung up in the TLS handshake" in str(error):
            hint = " (does it listen without TLS?)"
        fail(f"{error}{hint}", EXIT_UNREACHABLE)
    except (BadSetting, TlsError) as error:
        fail(str(error), EXIT_BAD_INPUT)
    except ClientError as error:
        fail(explain(error), EXIT_FAILED)
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _cancel_on_signals(received: list[int]) -> None:
    """Has SIGTERM and SIGHUP cancel the current task, as asyncio does for Ctrl-C, so that consumers leave their group.

    A signal that this process was told to ignore, as `nohup` does, stays ignored.
    """
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
    raise typer.Exit(exit_code)


def end_with(failures: Sequence[ClientError]) -> None:
    """A line for each, and the exit code; nothing if there are none."""
    for failure in failures[:-1]:
        warn(explain(failure))
    if failures:
        fail(explain(failures[-1]))
