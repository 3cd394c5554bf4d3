"""`cordwood feature`: the levels of features that a cluster uses."""

from enum import StrEnum
from typing import Annotated

import typer

from cordwood.cli.connection.access import Access, end_with, reaching_cluster, run
from cordwood.cli.framework.assignments import parse_pairs
from cordwood.cli.framework.shared_options import AsJson, DryRun
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion
from cordwood.cli.terminal.output import note, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.cluster import FeatureUpdate, UpgradeType
from cordwood.client.admin.results import failures_of
from cordwood.client.errors import BrokerError

app = typer.Typer(help="Show and change the levels of features.", no_args_is_help=True, add_completion=False)


class Downgrade(StrEnum):
    SAFE = "safe"
    UNSAFE = "unsafe"


_TYPES = {Downgrade.SAFE: UpgradeType.SAFE_DOWNGRADE, Downgrade.UNSAFE: UpgradeType.UNSAFE_DOWNGRADE}


@app.command("list", epilog="Examples:\n\ncordwood feature list\n\ncordwood feature list --json")
@reaching_cluster
def list_features(access: Access, as_json: AsJson = False) -> None:
    """List features: name, level that the cluster uses, lowest and highest level that the broker supports."""
    features = run(access, Admin.describe_features)
    if as_json:
        print_json(
            [
                {
                    "name": feature.name,
                    "level": feature.finalized,
                    "minSupported": feature.min_supported,
                    "maxSupported": feature.max_supported,
                }
                for feature in features
            ]
        )
    else:
        print_table(
            ("name", "level", "lowest", "highest"),
            [(each.name, each.finalized, each.min_supported, each.max_supported) for each in features],
        )


@app.command(
    "set",
    epilog="Examples:\n\n"
    "cordwood feature set metadata.version=27\n\n"
    "cordwood feature set group.version=0 --downgrade safe --dry-run",
)
@reaching_cluster
def set_levels(
    access: Access,
    levels: Annotated[
        list[str], typer.Argument(metavar="NAME=LEVEL", help="Features and their levels; 0 is off.", show_default=False)
    ],
    downgrade: Annotated[
        Downgrade | None,
        typer.Option(help="Lower levels: safe refuses where metadata would be lost, unsafe does not."),
    ] = None,
    yes: YesDelete = False,
    dry_run: DryRun = False,
) -> None:
    """Raise the levels of features, or lower them with --downgrade. All changes are made, or none."""
    how = UpgradeType.UPGRADE if downgrade is None else _TYPES[downgrade]
    updates = {}
    for name, level in parse_pairs(levels, "NAME=LEVEL").items():
        if not (level.isascii() and level.isdecimal()):
            raise typer.BadParameter(f"{level!r} is not a feature level; expected 0 or more", param_hint="NAME=LEVEL")
        updates[name] = FeatureUpdate(int(level), how)
    if downgrade is Downgrade.UNSAFE and not dry_run:
        confirm_deletion(f"metadata that the lower levels of {', '.join(updates)} do not have", yes)

    async def work(admin: Admin) -> list[BrokerError]:
        return list((await failures_of(admin.update_features(updates, validate_only=dry_run))).values())

    end_with(run(access, work))
    for name, update in updates.items():
        note(f"{name} {'could be' if dry_run else 'is'} {update.level}")
