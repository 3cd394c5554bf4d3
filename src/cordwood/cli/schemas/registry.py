"""`cordwood registry`: a standalone schema registry for any Kafka cluster."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, EXIT_FAILED, Access, fail, reaching_cluster, run_alone
from cordwood.client.settings import Settings

if TYPE_CHECKING:
    from cordwood.registry.rest.authentication import Credentials
    from cordwood.runtime.tls import ClientTls, ServerTls

S = TypeVar("S", bound=Settings)

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:\n\ncordwood registry --bootstrap kafka:9092\n\n"
    "cordwood registry --host 0.0.0.0 --advertised-url http://registry1:8081 --users users.properties\n\n"
    "cordwood registry --https-cert registry.pem --https-ca ca.pem --https-client-auth"
)
@reaching_cluster
def registry(
    access: Access,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")] = 8081,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    topic: Annotated[str, typer.Option(metavar="TOPIC", help="The topic that stores the schemas.")] = "_schemas",
    replication_factor: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Replication factor of the topic, if it must be created.",
            show_default="offsets.topic.replication.factor of the brokers",
        ),
    ] = None,
    advertised_url: Annotated[
        str,
        typer.Option(
            metavar="URL", help="URL at which other registries of this topic reach this one.", show_default=False
        ),
    ] = "",
    users: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Require basic authentication: a line `user: password` for each user."),
    ] = None,
    https_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Listen with https: a PEM file with a certificate and its key.")
    ] = None,
    https_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key, if it is in another file.")] = None,
    https_ca: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="PEM certificates that verify those of clients and other registries."),
    ] = None,
    https_client_auth: Annotated[
        bool, typer.Option("--https-client-auth", help="Require a certificate of clients; needs --https-ca.")
    ] = False,
) -> None:
    """Serve a schema registry with Confluent's REST API, until Ctrl-C or SIGTERM."""
    from cordwood.registry.listeners import check_advertised
    from cordwood.runtime.tls import ClientAuth, ClientTls, KeyPair, ServerTls

    credentials = None if users is None else _read_users(users)
    ca = None if https_ca is None else str(https_ca)
    keys = None if https_cert is None else KeyPair(str(https_cert), None if https_key is None else str(https_key))
    if https_client_auth and (keys is None or ca is None):
        fail("--https-client-auth needs --https-cert and --https-ca", EXIT_BAD_INPUT)
    try:
        advertised = check_advertised(advertised_url) if advertised_url else ""
    except ValueError as error:
        fail(f"--advertised-url: {error}", EXIT_BAD_INPUT)

    async def main() -> None:
        client_auth = ClientAuth.REQUIRED if https_client_auth else ClientAuth.NONE
        tls = None if keys is None else ServerTls(keys, client_auth, ca)
        forwarding = None if keys is None and ca is None else ClientTls(ca, keys)
        await _serve(
            access, host, port, topic, replication_factor, advertised, credentials, tls=tls, forwarding_tls=forwarding
        )

    run_alone(main)


async def _serve(
    access: Access,
    host: str,
    port: int,
    topic: str,
    replication_factor: int | None,
    advertised_url: str,
    credentials: "Credentials | None",
    *,
    tls: "ServerTls | None",
    forwarding_tls: "ClientTls | None",
) -> None:
    from cordwood.registry.errors import UnusableTopic
    from cordwood.registry.packages import PackagesMissing
    from cordwood.registry.registry import RegistrySettings
    from cordwood.registry.server import RegistryServer
    from cordwood.runtime.clock import SystemClock
    from cordwood.runtime.network import CannotListen
    from cordwood.runtime.process import stop_signals
    from cordwood.runtime.sockets import SocketNetwork

    def settings_of(kind: type[S], /, **own: Any) -> S:
        return access.settings_of(kind, None, **own)

    settings = RegistrySettings(
        settings_of, topic, replication_factor=replication_factor, forwarding_tls=forwarding_tls
    )
    try:
        server = await RegistryServer.start(
            settings,
            SocketNetwork(),
            SystemClock(),
            host,
            port,
            tls=tls,
            advertised_url=advertised_url,
            credentials=credentials,
        )
    except (PackagesMissing, CannotListen, UnusableTopic) as error:
        fail(str(error), EXIT_FAILED)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, stopped.set)
    print(f"The schema registry is ready at {server.url}", flush=True)
    await stopped.wait()
    await server.stop()


def _read_users(file: Path) -> "Credentials":
    from cordwood.registry.rest.authentication import read_credentials

    try:
        return read_credentials(file.read_text(encoding="utf-8"), str(file))
    except (OSError, ValueError) as error:
        fail(f"--users {file}: {getattr(error, 'strerror', None) or error}", EXIT_BAD_INPUT)
