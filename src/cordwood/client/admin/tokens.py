"""Delegation tokens: credentials that a principal issues for a limited time (KIP-48)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from cordwood.client.client import Client
from cordwood.client.errors import BadSetting, BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from cordwood.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from cordwood.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from cordwood.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """Principals are written as in ACLs: "User:alice"."""

    id: str
    hmac: bytes
    """The secret that authenticates the token's holder and identifies the token for renewal."""
    owner: str
    requester: str
    """The requester; the owner before Kafka 3.3."""
    issued_ms: int
    expires_ms: int
    max_ms: int
    """Renewals do not go beyond this."""
    renewers: tuple[str, ...]


async def create_delegation_token(
    client: Client, *, owner: str | None, renewers: Sequence[str], max_lifetime_ms: int
) -> DelegationToken:
    """Creates a token for `owner`, by default the caller."""
    owner_type, owner_name = (None, None) if owner is None else _split(owner)
    request = CreateDelegationTokenRequest(
        owner_principal_type=owner_type,
        owner_principal_name=owner_name,
        renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in map(_split, renewers)],
        max_lifetime_ms=max_lifetime_ms,
    )

    def errors(response: CreateDelegationTokenResponse) -> Collection[int]:
        return [response.error_code]

    told = await client.ask_controller(request, errors)
    _check(told.error_code)
    created_for = f"{told.principal_type}:{told.principal_name}"
    return DelegationToken(
        told.token_id,
        bytes(told.hmac),
        created_for,
        _principal(told.token_requester_principal_type, told.token_requester_principal_name) or created_for,
        told.issue_timestamp_ms,
        told.expiry_timestamp_ms,
        told.max_timestamp_ms,
        tuple(renewers),
    )


async def renew_delegation_token(client: Client, hmac: bytes, period_ms: int) -> int:
    """Returns the new expiry."""

    def errors(response: RenewDelegationTokenResponse) -> Collection[int]:
        return [response.error_code]

    told = await client.ask_controller(RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), errors)
    _check(told.error_code)
    return told.expiry_timestamp_ms


async def expire_delegation_token(client: Client, hmac: bytes, period_ms: int) -> int:
    """Returns the new expiry; a negative period expires the token at once."""

    def errors(response: ExpireDelegationTokenResponse) -> Collection[int]:
        return [response.error_code]

    told = await client.ask_controller(ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), errors)
    _check(told.error_code)
    return told.expiry_timestamp_ms


async def describe_delegation_tokens(client: Client, owners: Collection[str] | None) -> list[DelegationToken]:
    """Returns the tokens that the caller may see: of all owners or of these."""
    request = DescribeDelegationTokenRequest(
        owners=None
        if owners is None
        else [
            DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in map(_split, owners)
        ]
    )
    response = await client.ask_any(request)
    _check(response.error_code)
    tokens = []
    for told in response.tokens:
        owner = f"{told.principal_type}:{told.principal_name}"
        requester = _principal(told.token_requester_principal_type, told.token_requester_principal_name)
        renewers = tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in told.renewers)
        tokens.append(
            DelegationToken(
                told.token_id,
                bytes(told.hmac),
                owner,
                requester or owner,
                told.issue_timestamp,
                told.expiry_timestamp,
                told.max_timestamp,
                renewers,
            )
        )
    return sorted(tokens, key=lambda token: token.id)


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise BrokerError(code)


def _split(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not kind or not colon or not name:
        raise BadSetting(f"{principal!r} is not a principal; expected TYPE:NAME, such as User:alice")
    return kind, name


def _principal(kind: str, name: str) -> str | None:
    """None if an older broker does not report it."""
    return f"{kind}:{name}" if kind else None
