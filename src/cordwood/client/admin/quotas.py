"""Client quotas: limits for users, client ids and addresses."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from cordwood.client.admin.results import failure
from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import alter_client_quotas as alter
from cordwood.wire.messages.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
from cordwood.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2


class QuotaName(Enum):
    """Special values in place of a name."""

    DEFAULT = "default"
    """Entities without their own quota."""
    ANY = "any"
    """In a filter: every name, and the default."""


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The entity of a quota: `QuotaEntity(user="alice")`."""

    user: str | QuotaName | None = None
    client_id: str | QuotaName | None = None
    ip: str | QuotaName | None = None

    def parts(self) -> dict[str, str | QuotaName]:
        """The components that are set, by Kafka's names."""
        named = {USER: self.user, CLIENT_ID: self.client_id, IP: self.ip}
        return {kind: name for kind, name in named.items() if name is not None}

    def __str__(self) -> str:
        return ", ".join(
            f"{kind} {'default' if name is QuotaName.DEFAULT else name}" for kind, name in self.parts().items()
        )


async def describe_client_quotas(
    client: Client, components: Mapping[str, str | QuotaName], *, strict: bool = False
) -> dict[QuotaEntity, dict[str, float]]:
    """Returns quotas by name of the entities that match every component (USER, CLIENT_ID, IP); all without components.

    With `strict`, only entities without further components.
    """
    request = DescribeClientQuotasRequest(
        components=[_component(kind, match) for kind, match in components.items()], strict=strict
    )
    response = await client.ask_any(request)
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message)
    return {
        _entity({part.entity_type: part.entity_name for part in entry.entity}): {
            value.key: value.value for value in entry.values
        }
        for entry in response.entries or []
    }


async def alter_client_quotas(
    client: Client, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
) -> dict[QuotaEntity, BrokerError | None]:
    """Sets quotas by name; None removes one. Returns the result for each entity."""
    request = AlterClientQuotasRequest(
        entries=[
            alter.RequestEntryData(
                entity=[
                    alter.RequestEntityData(
                        entity_type=kind, entity_name=None if name is QuotaName.DEFAULT else str(name)
                    )
                    for kind, name in entity.parts().items()
                ],
                ops=[
                    alter.OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                    for key, value in quotas.items()
                ],
            )
            for entity, quotas in changes.items()
        ],
        validate_only=validate_only,
    )

    def errors(response: AlterClientQuotasResponse) -> Collection[int]:
        return [entry.error_code for entry in response.entries]

    response = await client.ask_controller(request, errors)
    outcomes = {}
    for entry in response.entries:
        entity = _entity({part.entity_type: part.entity_name for part in entry.entity})
        outcomes[entity] = failure(entry.error_code, entry.error_message, str(entity))
    return {entity: outcomes[entity] for entity in changes}


def _component(kind: str, match: str | QuotaName) -> ComponentData:
    if match is QuotaName.ANY:
        return ComponentData(entity_type=kind, match_type=_SPECIFIED, match=None)
    if match is QuotaName.DEFAULT:
        return ComponentData(entity_type=kind, match_type=_DEFAULT, match=None)
    return ComponentData(entity_type=kind, match_type=_EXACT, match=str(match))


def _entity(parts: Mapping[str, str | None]) -> QuotaEntity:
    named = {kind: QuotaName.DEFAULT if name is None else name for kind, name in parts.items()}
    return QuotaEntity(named.get(USER), named.get(CLIENT_ID), named.get(IP))
