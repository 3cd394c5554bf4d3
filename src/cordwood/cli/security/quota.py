"""`cordwood quota`: limits for users, client ids and addresses."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import Access, end_with, reaching_cluster, run
from cordwood.cli.framework.assignments import parse_pairs
from cordwood.cli.framework.shared_options import AsJson, DryRun
from cordwood.cli.terminal.output import note, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.quotas import CLIENT_ID, IP, USER, QuotaEntity, QuotaName
from cordwood.client.admin.results import failures_of
from cordwood.client.errors import BrokerError

app = typer.Typer(help="Show and change client quotas.", no_args_is_help=True, add_completion=False)

_KINDS = {USER: "user", CLIENT_ID: "client_id", IP: "ip"}

Names = Annotated[
    list[str] | None,
    typer.Option("--name", metavar="KIND=NAME", help="user=alice, client-id=etl or ip=10.0.0.7; may be repeated."),
]
Defaults = Annotated[
    list[str] | None,
    typer.Option(
        "--default", metavar="KIND", help="user, client-id or ip: the default for those without their own quota."
    ),
]


@app.command("list", epilog="Examples:\n\ncordwood quota list\n\ncordwood quota list --name user=alice --json")
@reaching_cluster
def list_quotas(
    access: Access,
    names: Names = None,
    defaults: Defaults = None,
    kinds: Annotated[
        list[str] | None, typer.Option("--any", metavar="KIND", help="Those with a quota of this kind.")
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Only exact matches.")] = False,
    as_json: AsJson = False,
) -> None:
    """List quotas, one per row: entity, name, value."""
    wanted = _components(names, defaults) | {_kind(kind, "--any"): QuotaName.ANY for kind in kinds or []}

    async def work(admin: Admin) -> dict[QuotaEntity, dict[str, float]]:
        return await admin.describe_client_quotas(wanted, strict=strict)

    found = sorted(run(access, work).items(), key=lambda each: str(each[0]))
    if as_json:
        print_json([{"entity": _entity_as_json(entity), "quotas": quotas} for entity, quotas in found])
    else:
        print_table(
            ("entity", "quota", "value"),
            [
                (str(entity), name, f"{value:.15g}")
                for entity, quotas in found
                for name, value in sorted(quotas.items())
            ],
        )


@app.command(
    "set",
    epilog="Examples:\n\n"
    "cordwood quota set producer_byte_rate=1048576 --name user=alice\n\n"
    "cordwood quota set request_percentage=50 --default client-id --dry-run",
)
@reaching_cluster
def set_quotas(
    access: Access,
    quotas: Annotated[
        list[str],
        typer.Argument(
            metavar="QUOTA=VALUE",
            help="producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate, "
            "connection_creation_rate.",
            show_default=False,
        ),
    ],
    names: Names = None,
    defaults: Defaults = None,
    dry_run: DryRun = False,
) -> None:
    """Set quotas."""
    values = {name: _number(value) for name, value in parse_pairs(quotas, "QUOTA=VALUE").items()}
    _alter(access, _entity(names, defaults), values, dry_run)


@app.command(epilog="Examples:\n\ncordwood quota unset producer_byte_rate --name user=alice")
@reaching_cluster
def unset(
    access: Access,
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA", help="Names of quotas.", show_default=False)],
    names: Names = None,
    defaults: Defaults = None,
    dry_run: DryRun = False,
) -> None:
    """Remove quotas."""
    _alter(access, _entity(names, defaults), dict.fromkeys(quotas), dry_run)


def _alter(access: Access, entity: QuotaEntity, quotas: dict[str, Any], dry_run: bool) -> None:
    async def work(admin: Admin) -> list[BrokerError]:
        return list((await failures_of(admin.alter_client_quotas({entity: quotas}, validate_only=dry_run))).values())

    end_with(run(access, work))
    note(f"{entity}: {'nothing changed (--dry-run)' if dry_run else 'changed ' + ', '.join(quotas)}")


def _entity(names: Sequence[str] | None, defaults: Sequence[str] | None) -> QuotaEntity:
    components = _components(names, defaults)
    if not components:
        raise typer.BadParameter("no entity: give --name or --default", param_hint="--name")
    return QuotaEntity(**{_KINDS[kind]: name for kind, name in components.items()})


def _components(names: Sequence[str] | None, defaults: Sequence[str] | None) -> dict[str, str | QuotaName]:
    named: dict[str, str | QuotaName] = {}
    for kind, name in parse_pairs(names or [], "--name").items():
        named[_kind(kind, "--name")] = name
    return named | {_kind(kind, "--default"): QuotaName.DEFAULT for kind in defaults or []}


def _kind(text: str, option: str) -> str:
    if text not in _KINDS:
        raise typer.BadParameter(f"{text!r} is none of {', '.join(_KINDS)}", param_hint=option)
    return text


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number", param_hint="QUOTA=VALUE") from None


def _entity_as_json(entity: QuotaEntity) -> dict[str, str | None]:
    """The default entity is null, as in Kafka."""
    return {kind: None if name is QuotaName.DEFAULT else str(name) for kind, name in entity.parts().items()}
