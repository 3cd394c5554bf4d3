"""Access control: ACLs, quotas, credentials, tokens."""

from collections.abc import Collection, Mapping, Sequence

from cordwood.client.admin import acls as acl_functions
from cordwood.client.admin import quotas, scram, tokens
from cordwood.client.admin.acls import Acl, AclFilter
from cordwood.client.admin.calls.connected import Connected
from cordwood.client.admin.quotas import QuotaEntity, QuotaName
from cordwood.client.admin.results import values
from cordwood.client.admin.scram import ScramCredential, ScramDeletion, ScramUpsertion
from cordwood.client.admin.tokens import DelegationToken
from cordwood.client.arguments import by_name, mapping_of, names_of, values_of


class SecurityCalls(Connected):
    async def describe_acls(self, wanted: AclFilter | None = None) -> list[Acl]:
        """Returns the ACLs that match; all without a filter."""
        return await acl_functions.describe_acls(await self._connected(), wanted or AclFilter())

    async def create_acls(self, acls: Sequence[Acl]) -> None:
        """Adds ACLs; existing ones stay."""
        values(await acl_functions.create_acls(await self._connected(), values_of(acls, Acl, "acls")))

    async def delete_acls(self, filters: Sequence[AclFilter]) -> dict[AclFilter, list[Acl]]:
        """Deletes the matching ACLs, and returns them."""
        return values(
            await acl_functions.delete_acls(await self._connected(), values_of(filters, AclFilter, "filters"))
        )

    async def describe_client_quotas(
        self, components: Mapping[str, str | QuotaName] | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Returns the quotas that match every component ("user", "client-id", "ip"); with `strict`, of entities without
        further components."""
        return await quotas.describe_client_quotas(await self._connected(), components or {}, strict=strict)

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> None:
        """Sets quotas such as "producer_byte_rate"; None removes one."""
        mapping_of(changes, "changes", "QuotaEntity with quotas by their names")
        values_of(list(changes), QuotaEntity, "changes")
        for entity, each in changes.items():
            by_name(each, f"the quotas of {entity}", "a number")
        values(await quotas.alter_client_quotas(await self._connected(), changes, validate_only=validate_only))

    async def describe_user_scram_credentials(
        self, users: Collection[str] | None = None
    ) -> dict[str, list[ScramCredential]]:
        """Returns the SCRAM mechanisms for which users have credentials; all users, or these."""
        chosen = None if users is None else names_of(users, "users")
        return values(await scram.describe_user_scram_credentials(await self._connected(), chosen))

    async def alter_user_scram_credentials(self, changes: Sequence[ScramUpsertion | ScramDeletion]) -> None:
        """Sets and deletes credentials; passwords are salted and hashed here, and never sent."""
        checked = values_of(changes, (ScramUpsertion, ScramDeletion), "changes")
        values(await scram.alter_user_scram_credentials(await self._connected(), checked, self._random))

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Sequence[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Creates a token for `owner` ("User:alice"), or for the caller; -1 is the longest lifetime that brokers
        allow."""
        return await tokens.create_delegation_token(
            await self._connected(),
            owner=owner,
            renewers=names_of(renewers, "renewers"),
            max_lifetime_ms=max_lifetime_ms,
        )

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Extends a token's life, and returns its new expiry in ms; -1 is the brokers' default."""
        return await tokens.renew_delegation_token(await self._connected(), hmac, period_ms)

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Sets a token's expiry, and returns it in ms; -1 expires it at once."""
        return await tokens.expire_delegation_token(await self._connected(), hmac, period_ms)

    async def describe_delegation_tokens(self, owners: Collection[str] | None = None) -> list[DelegationToken]:
        """Returns the tokens that the caller may see, of all owners or of these."""
        chosen = None if owners is None else names_of(owners, "owners")
        return await tokens.describe_delegation_tokens(await self._connected(), chosen)
