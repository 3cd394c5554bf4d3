"""Access control lists."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from cordwood.client.admin.broker_enum import BrokerEnum
from cordwood.client.admin.results import failure
from cordwood.client.client import Client
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from cordwood.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from cordwood.wire.messages.describe_acls import AclDescription, DescribeAclsRequest, DescribeAclsResource

Asking = TypeVar("Asking", DescribeAclsRequest, DeleteAclsFilter)


class AclResourceType(BrokerEnum):
    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(BrokerEnum):
    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    """In a filter: all patterns that apply to this name."""
    LITERAL = 3
    PREFIXED = 4


class AclOperation(BrokerEnum):
    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(BrokerEnum):
    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True)
class Acl:
    resource_type: AclResourceType
    resource_name: str
    principal: str
    """For example "User:alice" or "User:*"."""
    operation: AclOperation
    permission: AclPermission = AclPermission.ALLOW
    host: str = "*"
    pattern_type: PatternType = PatternType.LITERAL


@dataclass(frozen=True, slots=True)
class AclFilter:
    """Fields that are None match everything."""

    resource_type: AclResourceType = AclResourceType.ANY
    resource_name: str | None = None
    principal: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY
    host: str | None = None
    pattern_type: PatternType = PatternType.ANY


async def describe_acls(client: Client, wanted: AclFilter) -> list[Acl]:
    """Raises SECURITY_DISABLED if brokers have no authorizer."""
    response = await client.ask_any(_asking(DescribeAclsRequest, wanted))
    if response.error_code != ErrorCode.NONE:
        raise BrokerError(response.error_code, response.error_message)
    return [_acl(resource, told) for resource in response.resources for told in resource.acls]


async def create_acls(client: Client, acls: Sequence[Acl]) -> dict[Acl, BrokerError | None]:
    """Returns the result for each ACL; None is success, also if it already existed."""
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource_type,
                resource_name=acl.resource_name,
                resource_pattern_type=acl.pattern_type,
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in acls
        ]
    )

    def errors(response: CreateAclsResponse) -> Collection[int]:
        return [told.error_code for told in response.results]

    response = await client.ask_controller(request, errors)
    return {
        acl: failure(told.error_code, told.error_message, f"{acl.resource_name} for {acl.principal}")
        for acl, told in zip(acls, response.results, strict=True)
    }


async def delete_acls(client: Client, filters: Sequence[AclFilter]) -> dict[AclFilter, list[Acl] | BrokerError]:
    """Returns the ACLs deleted by each filter."""
    request = DeleteAclsRequest(filters=[_asking(DeleteAclsFilter, wanted) for wanted in filters])

    def errors(response: DeleteAclsResponse) -> Collection[int]:
        return [told.error_code for told in response.filter_results]

    response = await client.ask_controller(request, errors)
    return {wanted: _deleted(told) for wanted, told in zip(filters, response.filter_results, strict=True)}


def _deleted(told: DeleteAclsFilterResult) -> list[Acl] | BrokerError:
    refused = failure(told.error_code, told.error_message)
    for one in told.matching_acls:
        refused = refused or failure(one.error_code, one.error_message, one.resource_name)
    return refused or [_acl(one, one) for one in told.matching_acls]


def _asking(kind: type[Asking], wanted: AclFilter) -> Asking:
    return kind(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )


def _acl(resource: DescribeAclsResource | DeleteAclsMatchingAcl, told: AclDescription | DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        AclResourceType.of(resource.resource_type),
        resource.resource_name,
        told.principal,
        AclOperation.of(told.operation),
        AclPermission.of(told.permission_type),
        told.host,
        PatternType.of(resource.pattern_type),
    )
