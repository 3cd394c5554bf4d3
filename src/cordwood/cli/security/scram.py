"""`cordwood scram`: SCRAM credentials of users."""

import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import typer

from cordwood.cli.connection.access import EXIT_BAD_INPUT, Access, end_with, fail, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion
from cordwood.cli.terminal.output import note, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.results import failures_of
from cordwood.client.admin.scram import ScramCredential, ScramDeletion, ScramMechanism, ScramUpsertion
from cordwood.client.errors import BrokerError

app = typer.Typer(help="List, set and delete SCRAM credentials of users.", no_args_is_help=True, add_completion=False)


class Mechanism(StrEnum):
    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def of_admin(self) -> ScramMechanism:
        return ScramMechanism[self.value.replace("-", "_")]


MechanismOption = Annotated[Mechanism, typer.Option("--mechanism", "-m", case_sensitive=False, help="SCRAM mechanism.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)]


@app.command("list", epilog="Examples:\n\ncordwood scram list\n\ncordwood scram list alice bob --json")
@reaching_cluster
def list_credentials(
    access: Access,
    users: Annotated[
        list[str] | None, typer.Argument(metavar="USER", help="Users; default: all.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List which users have credentials: user, mechanism, iterations."""

    async def work(admin: Admin) -> dict[str, list[ScramCredential]]:
        return await admin.describe_user_scram_credentials(users or None)

    found = sorted(run(access, work).items())
    rows = [
        (user, credential.mechanism.name.replace("_", "-"), credential.iterations)
        for user, credentials in found
        for credential in credentials
    ]
    if as_json:
        print_json([dict(zip(("user", "mechanism", "iterations"), row, strict=True)) for row in rows])
    else:
        print_table(("user", "mechanism", "iterations"), rows)


@app.command(
    "set",
    epilog="Examples:\n\ncordwood scram set alice\n\ncordwood scram set alice -m SCRAM-SHA-512 --password-file secret",
)
@reaching_cluster
def set_password(
    access: Access,
    user: User,
    mechanism: MechanismOption = Mechanism.SHA_256,
    password_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="File whose first line is the password; - is standard input. Default: prompt."
        ),
    ] = None,
    iterations: Annotated[int, typer.Option(min=4096, max=16384, help="Hash iterations.")] = 4096,
) -> None:
    """Set a user's password. It is salted and hashed here; the password itself is never sent."""
    password = _password(password_file)
    change = ScramUpsertion(user, mechanism.of_admin, password.encode(), iterations)
    _alter(access, [change])
    note(f"{user} has a password for {mechanism}")


@app.command(epilog="Examples:\n\ncordwood scram delete alice -m SCRAM-SHA-512 --yes")
@reaching_cluster
def delete(access: Access, user: User, mechanism: MechanismOption = Mechanism.SHA_256, yes: YesDelete = False) -> None:
    """Delete a user's credential."""
    confirm_deletion(f"the {mechanism} credential of {user}", yes)
    _alter(access, [ScramDeletion(user, mechanism.of_admin)])
    note(f"deleted the {mechanism} credential of {user}")


def _alter(access: Access, changes: Sequence[ScramUpsertion | ScramDeletion]) -> None:
    async def work(admin: Admin) -> list[BrokerError]:
        return list((await failures_of(admin.alter_user_scram_credentials(changes))).values())

    end_with(run(access, work))


def _password(file: str | None) -> str:
    if file is None:
        if not sys.stdin.isatty():
            fail("there is no terminal to prompt for the password: give --password-file", EXIT_BAD_INPUT)
        return str(typer.prompt("Password", hide_input=True, confirmation_prompt=True, err=True))
    try:
        if file == "-":
            password = sys.stdin.readline()
        else:
            with open(file, encoding="utf-8") as lines:
                password = lines.readline()
    except OSError as error:
        fail(f"{file}: {error.strerror}", EXIT_BAD_INPUT)
    password = password.rstrip("\r\n")
    if not password:
        fail(f"{file}: the password is empty", EXIT_BAD_INPUT)
    return password
