"""`cordwood registry`: a schema registry on its own, against any Kafka cluster."""

import asyncio
import signal
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, EXIT_FAILED, Access, fail, reaching_cluster, run_alone
from cordwood.client.settings import Settings

S = TypeVar("S", bound=Settings)

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\ncordwood registry --bootstrap kafka:9092\n\n"
    "cordwood registry --host 0.0.0.0 --advertised-url http://registry1:8081 --users users.properties"
)
@reaching_cluster
def registry(
    access: Access,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8081,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="The topic that keeps the schemas.")] = "_schemas",
    advertised_url: Annotated[
        str,
        typer.Option(metavar="URL", help="Where other registries of this topic reach this one.", show_default=False),
    ] = "",
    users: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Require basic authentication: a line `user: password` for each user."),
    ] = None,
) -> None:
    """Serve a schema registry with Confluent's REST API, until Ctrl-C or SIGTERM."""
    credentials = None if users is None else _read_users(users)
    run_alone(lambda: _serve(access, host, port, topic, advertised_url, credentials))


async def _serve(
    access: Access, host: str, port: int, topic: str, advertised_url: str, credentials: dict[str, str] | None
) -> None:
    from cordwood.registry.errors import UnusableTopic
    from cordwood.registry.registry import RegistrySettings
    from cordwood.registry.server import RegistryServer
    from cordwood.runtime.clock import SystemClock
    from cordwood.runtime.network import CannotListen
    from cordwood.runtime.sockets import SocketNetwork

    def settings_of(kind: type[S], /, **own: Any) -> S:
        return access.settings_of(kind, None, **own)

    try:
        server = await RegistryServer.start(
            RegistrySettings(settings_of, topic),
            SocketNetwork(),
            SystemClock(),
            host,
            port,
            advertised_url=advertised_url,
            credentials=credentials,
        )
    except (CannotListen, UnusableTopic) as error:
        fail(str(error), EXIT_FAILED)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    print(f"The schema registry is ready at {server.url}", flush=True)
    await stopped.wait()
    await server.stop()


def _read_users(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"--users {file}: {error}", EXIT_BAD_INPUT)
    users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        user, colon, password = line.partition(":")
        if not colon or not password.strip():
            fail(f"--users {file}, line {number}: expected `user: password`", EXIT_BAD_INPUT)
        users[user.strip()] = password.strip()
    return users
