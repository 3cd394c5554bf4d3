"""The connection options as typer reads them; `Access` holds their values."""

from typing import Annotated

import typer

from cordwood.cli.connection.profiles import complete_profile

_PANEL = "Connection"


def access_options(
    *,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT",
            help="Bootstrap brokers, separated by commas; else the environment variable CORDWOOD_BOOTSTRAP, the "
            "profile in use, 127.0.0.1:9092.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    client_config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Client properties, as Kafka's tools take them with --command-config; else the variable "
            "CORDWOOD_CLIENT_CONFIG.",
            rich_help_panel=_PANEL,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A profile (cordwood profile list); else the variable CORDWOOD_PROFILE, or the profile in use.",
            rich_help_panel=_PANEL,
            autocompletion=complete_profile,
        ),
    ] = None,
    timeout_s: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            help="How long to retry while brokers do not respond.   [default: 30]",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None,
    tls: Annotated[
        bool | None,
        typer.Option(
            "--tls/--no-tls",
            help="Connect with TLS; the other --tls options imply it. Overrides the file or profile.",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None,
    tls_ca: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Certificates to trust (PEM), instead of the system's.", rich_help_panel=_PANEL
        ),
    ] = None,
    tls_cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="Client certificate (PEM).", rich_help_panel=_PANEL)
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Its key (PEM), if it is in another file.", rich_help_panel=_PANEL),
    ] = None,
    tls_key_password: Annotated[
        str | None, typer.Option(metavar="PASSWORD", help="Password of the key.", rich_help_panel=_PANEL)
    ] = None,
    tls_any_host: Annotated[
        bool,
        typer.Option(
            "--tls-any-host", help="Skip hostname verification of broker certificates.", rich_help_panel=_PANEL
        ),
    ] = False,
) -> None:
    """Returns the options of `Access` as typer parameters."""
