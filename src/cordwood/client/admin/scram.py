"""SCRAM credentials of users, which a broker stores instead of passwords (RFC 5802)."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from cordwood.client.admin.results import failure
from cordwood.client.client import Client
from cordwood.client.errors import BadSetting, BrokerError
from cordwood.runtime.randomness import Random
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from cordwood.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

_SALT_BYTES = 24


class ScramMechanism(IntEnum):
    UNKNOWN = 0
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @classmethod
    def of(cls, number: int) -> "ScramMechanism":
        return cls(number) if number in cls._value2member_map_ else cls.UNKNOWN


_HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """A credential's mechanism and iterations; brokers reveal no more."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    user: str
    mechanism: ScramMechanism
    password: bytes
    iterations: int = 4096
    salt: bytes | None = None
    """Random if not given."""


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    user: str
    mechanism: ScramMechanism


async def describe_user_scram_credentials(
    client: Client, users: Collection[str] | None = None
) -> dict[str, list[ScramCredential] | BrokerError]:
    """Describes credentials of all users that have any, or of these users; RESOURCE_NOT_FOUND for a user without."""
    request = DescribeUserScramCredentialsRequest(
        users=None if users is None else [UserName(name=user) for user in users]
    )
    response = await client.ask_any(request)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message)
    described: dict[str, list[ScramCredential] | BrokerError] = {}
    for told in response.results:
        credentials = [
            ScramCredential(ScramMechanism.of(info.mechanism), info.iterations) for info in told.credential_infos
        ]
        described[told.user] = failure(told.error_code, told.error_message, f"user {told.user}") or credentials
    return described


async def alter_user_scram_credentials(
    client: Client, changes: Sequence[ScramUpsertion | ScramDeletion], random: Random
) -> Mapping[str, BrokerError | None]:
    """Returns the result for each user. Passwords are salted and hashed here, and never sent."""
    request = AlterUserScramCredentialsRequest(
        deletions=[
            ScramCredentialDeletion(name=change.user, mechanism=change.mechanism)
            for change in changes
            if isinstance(change, ScramDeletion)
        ],
        upsertions=[_upsertion(change, random) for change in changes if isinstance(change, ScramUpsertion)],
    )

    def errors(response: AlterUserScramCredentialsResponse) -> Collection[int]:
        return [told.error_code for told in response.results]

    response = await client.ask_controller(request, errors)
    return {told.user: failure(told.error_code, told.error_message, f"user {told.user}") for told in response.results}


def _upsertion(change: ScramUpsertion, random: Random) -> ScramCredentialUpsertion:
    if change.mechanism not in _HASHES:
        raise BadSetting(f"{change.mechanism!r} is not a SCRAM mechanism; expected SCRAM_SHA_256 or SCRAM_SHA_512")
    salt = change.salt if change.salt is not None else bytes(random.below(256) for _ in range(_SALT_BYTES))
    salted = hashlib.pbkdf2_hmac(_HASHES[change.mechanism], change.password, salt, change.iterations)
    return ScramCredentialUpsertion(
        name=change.user,
        mechanism=change.mechanism,
        iterations=change.iterations,
        salt=salt,
        salted_password=salted,
    )
