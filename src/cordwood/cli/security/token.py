"""`cordwood token`: delegation tokens."""

import base64
import binascii
from typing import Annotated, Any

import typer

from cordwood.cli.connection.access import Access, reaching_cluster, run
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.framework.times import parse_duration_ms, time_text
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion
from cordwood.cli.terminal.output import print_facts, print_json, print_table
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.tokens import DelegationToken

app = typer.Typer(help="Create, list, renew and expire delegation tokens.", no_args_is_help=True, add_completion=False)

Hmac = Annotated[str, typer.Argument(metavar="HMAC", help="HMAC of the token, in base64.", show_default=False)]


@app.command("list", epilog="Examples:\n\ncordwood token list\n\ncordwood token list --owner User:alice --json")
@reaching_cluster
def list_tokens(
    access: Access,
    owners: Annotated[
        list[str] | None, typer.Option("--owner", metavar="PRINCIPAL", help="Only this token; may be repeated.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the tokens that you may see: id, owner, renewers, issue time, expiry and latest possible expiry."""

    async def work(admin: Admin) -> list[DelegationToken]:
        return await admin.describe_delegation_tokens(owners or None)

    tokens = run(access, work)
    if as_json:
        print_json([_as_json(token) for token in tokens])
    else:
        print_table(
            ("id", "owner", "renewers", "issued", "expires", "ends"),
            [
                (
                    token.id,
                    token.owner,
                    token.renewers,
                    *map(time_text, (token.issued_ms, token.expires_ms, token.max_ms)),
                )
                for token in tokens
            ],
        )


@app.command(epilog="Examples:\n\ncordwood token create\n\ncordwood token create --renewer User:etl --lifetime 7d")
@reaching_cluster
def create(
    access: Access,
    owner: Annotated[
        str | None, typer.Option(metavar="PRINCIPAL", help="Owner, such as User:alice; default: yourself.")
    ] = None,
    renewers: Annotated[
        list[str] | None, typer.Option("--renewer", metavar="PRINCIPAL", help="Another principal that may renew it.")
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Maximum lifetime; default: the brokers' maximum.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a token. Its HMAC is the secret that authenticates its holder: keep it secret."""
    longest_ms = _duration_ms(lifetime, "--lifetime")

    async def work(admin: Admin) -> DelegationToken:
        return await admin.create_delegation_token(owner=owner, renewers=renewers or (), max_lifetime_ms=longest_ms)

    token = run(access, work)
    if as_json:
        print_json(_as_json(token))
    else:
        print_facts(
            [
                ("id", token.id),
                ("hmac", base64.b64encode(token.hmac).decode()),
                ("owner", token.owner),
                ("expires", time_text(token.expires_ms)),
                ("ends", time_text(token.max_ms)),
            ]
        )


@app.command(epilog="Examples:\n\ncordwood token renew aG1hYw== --for 1d")
@reaching_cluster
def renew(
    access: Access,
    hmac: Hmac,
    period: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", help="New lifetime from now; default: the brokers' default."),
    ] = None,
) -> None:
    """Extend a token's life. Prints the new expiry."""
    code, period_ms = _decoded(hmac), _duration_ms(period, "--for")

    async def work(admin: Admin) -> int:
        return await admin.renew_delegation_token(code, period_ms=period_ms)

    print(time_text(run(access, work)))


@app.command(
    epilog="Examples:\n\ncordwood token expire aG1hYw== --yes\n\ncordwood token expire aG1hYw== --after 1h --yes"
)
@reaching_cluster
def expire(
    access: Access,
    hmac: Hmac,
    period: Annotated[
        str | None, typer.Option("--after", metavar="DURATION", help="Time until it expires; default: now.")
    ] = None,
    yes: YesDelete = False,
) -> None:
    """Expire a token. Prints the new expiry."""
    code, period_ms = _decoded(hmac), _duration_ms(period, "--after")
    confirm_deletion("the token", yes)

    async def work(admin: Admin) -> int:
        return await admin.expire_delegation_token(code, period_ms=period_ms)

    print(time_text(run(access, work)))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise typer.BadParameter(f"{text!r} is not base64", param_hint="HMAC") from None


def _duration_ms(text: str | None, option: str) -> int:
    """Returns -1, Kafka's value for the default, if none is given."""
    if text is None:
        return -1
    try:
        return parse_duration_ms(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def _as_json(token: DelegationToken) -> dict[str, Any]:
    return {
        "id": token.id,
        "hmac": base64.b64encode(token.hmac).decode(),
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issueTimestamp": token.issued_ms,
        "expiryTimestamp": token.expires_ms,
        "maxTimestamp": token.max_ms,
    }
