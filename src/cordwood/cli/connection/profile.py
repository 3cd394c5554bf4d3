"""`cordwood profile`: named client configurations."""

import os
from collections.abc import Callable
from functools import wraps
from typing import Annotated, ParamSpec

import typer

from cordwood.cli.connection.access import BOOTSTRAP_VARIABLE, EXIT_BAD_INPUT, EXIT_FAILED, PROFILE_VARIABLE, fail
from cordwood.cli.connection.client_properties import PropertyLayer, read_property_file, settings_from
from cordwood.cli.connection.profiles import Profiles, complete_profile
from cordwood.cli.framework.assignments import parse_pairs
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion
from cordwood.cli.terminal.output import note, print_json, print_table, warn
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadSetting
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import AdminSettings

P = ParamSpec("P")

app = typer.Typer(
    help="Create, list, use, show and delete named client configurations.",
    no_args_is_help=True,
    add_completion=False,
    epilog="Precedence, highest first: --bootstrap and the --tls options, --client-config, --profile; then the "
    "variables CORDWOOD_BOOTSTRAP, CORDWOOD_CLIENT_CONFIG, CORDWOOD_PROFILE; then the profile in use.",
)

Name = Annotated[
    str,
    typer.Argument(metavar="NAME", help="Name of the profile.", show_default=False, autocompletion=complete_profile),
]

_SECRETS = ("password", "keystore.key")
_HIDDEN = "[hidden]"


def _telling_errors(function: Callable[P, None]) -> Callable[P, None]:
    @wraps(function)
    def command(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            function(*args, **kwargs)
        except BadSetting as error:
            fail(str(error), EXIT_BAD_INPUT)
        except BrokenPipeError:
            raise
        except OSError as error:
            fail(f"{error.filename}: {error.strerror}", EXIT_FAILED)

    return command


@app.command(
    epilog="Examples:\n\n"
    "cordwood profile create local --bootstrap 127.0.0.1:9092\n\n"
    "cordwood profile create prod -b broker1:9093,broker2:9093 --tls-ca ca.pem --tls-cert me.pem --use\n\n"
    "cordwood profile create staging --from-file client.properties --set request.timeout.ms=5000"
)
@_telling_errors
def create(
    name: Name,
    bootstrap: Annotated[
        str | None, typer.Option("--bootstrap", "-b", metavar="HOST:PORT", help="Brokers, separated by commas.")
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Connect with TLS; the other --tls options imply it.")] = False,
    tls_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="Certificates to trust (PEM), instead of the system's.")
    ] = None,
    tls_cert: Annotated[str | None, typer.Option(metavar="FILE", help="Client certificate (PEM).")] = None,
    tls_key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key (PEM), if in another file.")] = None,
    tls_any_host: Annotated[
        bool, typer.Option("--tls-any-host", help="Skip hostname verification of broker certificates.")
    ] = False,
    file: Annotated[
        str | None,
        typer.Option("--from-file", metavar="FILE", help="Client properties file to start from, as for Kafka's tools."),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A client property by Kafka's name; may be repeated."),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace a profile of that name.")] = False,
    use: Annotated[bool, typer.Option("--use", help="Use it from now on, as profile use does.")] = False,
) -> None:
    """Create a profile. Invalid properties are reported, and then nothing is written."""
    profiles = Profiles.of_user()
    if name in profiles.names() and not replace:
        fail(f"profile {name} already exists; overwrite it with --replace", EXIT_BAD_INPUT)
    if tls_key is not None and tls_cert is None:
        raise typer.BadParameter("needs --tls-cert", param_hint="--tls-key")
    properties = dict(read_property_file(file).properties) if file is not None else {}
    if bootstrap is not None:
        properties["bootstrap.servers"] = bootstrap
    if tls or tls_any_host or tls_ca or tls_cert:
        properties["security.protocol"] = "SSL"
    # An absolute path, since a profile is used from any directory.
    if tls_ca is not None:
        properties["ssl.truststore.location"] = os.path.abspath(tls_ca)
    if tls_cert is not None and tls_key is not None:
        properties["ssl.keystore.certificate.chain"] = os.path.abspath(tls_cert)
        properties["ssl.keystore.key"] = os.path.abspath(tls_key)
    elif tls_cert is not None:
        properties["ssl.keystore.location"] = os.path.abspath(tls_cert)
    if tls_any_host:
        properties["ssl.endpoint.identification.algorithm"] = ""
    properties |= parse_pairs(settings or [], "--set")
    told: dict[str, None] = {}
    for kind in (AdminSettings, ProducerSettings, ConsumerSettings):
        settings_from(kind, [PropertyLayer(f"profile {name}", properties)], {}, lambda text: told.update({text: None}))
    for text in told:
        warn(text)
    profiles.write(name, properties)
    note(f"created profile {name}")
    if use:
        profiles.use(name)
        note(f"using profile {name}")


@app.command("list", epilog="Examples:\n\ncordwood profile list\n\ncordwood profile list --json")
@_telling_errors
def list_profiles(as_json: AsJson = False) -> None:
    """List profiles: whether it is in use (*), name, brokers."""
    profiles = Profiles.of_user()
    current = _current(profiles)
    rows = [(name, name == current, _properties(profiles, name).get("bootstrap.servers")) for name in profiles.names()]
    if as_json:
        print_json([{"name": name, "inUse": used, "bootstrapServers": brokers} for name, used, brokers in rows])
    else:
        print_table(("", "profile", "brokers"), [("*" if used else "", name, brokers) for name, used, brokers in rows])


@app.command(epilog="Examples:\n\ncordwood profile use prod\n\ncordwood profile use --none")
@_telling_errors
def use(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Name of the profile.", show_default=False, autocompletion=complete_profile
        ),
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Stop using a profile.")] = False,
) -> None:
    """Use a profile in all commands that do not name another."""
    if (name is None) != none:
        raise typer.BadParameter("name a profile, or give --none", param_hint="NAME")
    Profiles.of_user().use(name)
    note("no profile is in use" if name is None else f"using profile {name}")
    for variable in (PROFILE_VARIABLE, BOOTSTRAP_VARIABLE):
        if os.environ.get(variable):
            note(f"the environment variable {variable} is set and overrides the profile in use")


@app.command(epilog="Examples:\n\ncordwood profile show\n\ncordwood profile show prod --json")
@_telling_errors
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Name of the profile; default: the one in use.",
            show_default=False,
            autocompletion=complete_profile,
        ),
    ] = None,
    secrets: Annotated[bool, typer.Option("--secrets", help="Also passwords and keys.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a profile: its properties, one a row."""
    profiles = Profiles.of_user()
    chosen = name or _current(profiles)
    if chosen is None:
        fail("no profile is in use; choose one with cordwood profile use", EXIT_BAD_INPUT)
    shown = {
        key: value if secrets or not _is_secret(key, value) else _HIDDEN
        for key, value in sorted(_properties(profiles, chosen).items())
    }
    if as_json:
        print_json({"name": chosen, "inUse": chosen == _current(profiles), "properties": shown})
    else:
        print_table(("property", "value"), list(shown.items()))


@app.command(epilog="Examples:\n\ncordwood profile delete staging --yes")
@_telling_errors
def delete(name: Name, yes: YesDelete = False) -> None:
    """Delete a profile. If it is in use, no profile is in use afterwards."""
    profiles = Profiles.of_user()
    profiles.path(name)
    confirm_deletion(f"profile {name}", yes)
    profiles.delete(name)
    note(f"deleted profile {name}")


def _current(profiles: Profiles) -> str | None:
    return os.environ.get(PROFILE_VARIABLE) or profiles.current


def _properties(profiles: Profiles, name: str) -> dict[str, str]:
    return dict(read_property_file(profiles.path(name), f"profile {name}").properties)


def _is_secret(name: str, value: str) -> bool:
    """False for a key that is the path of a file."""
    return name.endswith(_SECRETS) and not os.path.isabs(value)
