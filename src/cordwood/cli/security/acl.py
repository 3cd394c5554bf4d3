"""`cordwood acl`: access control lists."""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import typer

from cordwood.cli.connection.access import Access, end_with, reaching_cluster, run
from cordwood.cli.framework.completion import complete_group, complete_topic, complete_transaction
from cordwood.cli.framework.shared_options import AsJson
from cordwood.cli.terminal.consent import YesDelete, confirm_deletion
from cordwood.cli.terminal.output import counted, note, print_json, print_table
from cordwood.client.admin.acls import Acl, AclFilter, AclOperation, AclPermission, AclResourceType, PatternType
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.results import failures_of
from cordwood.client.errors import BrokerError

app = typer.Typer(help="List, add and delete access control lists.", no_args_is_help=True, add_completion=False)

_CLUSTER_NAME = "kafka-cluster"
"""Kafka's name for the cluster as a resource."""

Topics = Annotated[list[str] | None, typer.Option("--topic", help="A topic.", autocompletion=complete_topic)]
Groups = Annotated[list[str] | None, typer.Option("--group", help="A group.", autocompletion=complete_group)]
Ids = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", help="A transactional id.", autocompletion=complete_transaction),
]
Tokens = Annotated[list[str] | None, typer.Option("--delegation-token", help="A delegation token.")]
Users = Annotated[list[str] | None, typer.Option("--user", help="Only this owner's tokens.")]
Cluster = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="Treat the names as prefixes.")]
Principals = Annotated[
    list[str] | None, typer.Option("--principal", help="A principal, such as User:alice, or User:*.")
]
Operations = Annotated[
    list[str] | None,
    typer.Option("--operation", "-o", help="read, write, describe, all and so on; may be repeated."),
]
Hosts = Annotated[list[str] | None, typer.Option("--host", help="Only from this address.")]


class _Resource(NamedTuple):
    kind: AclResourceType
    name: str | None


@app.command(
    "list",
    epilog="Examples:\n\ncordwood acl list\n\ncordwood acl list --topic orders --json\n\n"
    "cordwood acl list --principal User:alice --operation read",
)
@reaching_cluster
def list_acls(
    access: Access,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    tokens: Tokens = None,
    users: Users = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    principals: Principals = None,
    operations: Operations = None,
    hosts: Hosts = None,
    as_json: AsJson = False,
) -> None:
    """List ACLs: resource, name, pattern, principal, host, operation, permission."""
    resources = _resources(topics, groups, ids, tokens, users, cluster)
    filters = _filters(resources, principals, operations, hosts, prefixed, permission=AclPermission.ANY)
    found = run(access, lambda admin: _matching(admin, filters))
    if as_json:
        print_json([_as_json(acl) for acl in found])
    else:
        print_table(
            ("resource", "name", "pattern", "principal", "host", "operation", "permission"),
            [tuple(_as_json(acl).values()) for acl in found],
        )


@app.command(
    epilog="Examples:\n\n"
    "cordwood acl add --principal User:alice --operation read --operation describe --topic orders\n\n"
    "cordwood acl add --principal User:etl --operation all --topic etl- --prefixed\n\n"
    "cordwood acl add --principal User:bob --operation write --topic orders --deny"
)
@reaching_cluster
def add(
    access: Access,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    tokens: Tokens = None,
    users: Users = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    principals: Principals = None,
    operations: Operations = None,
    hosts: Hosts = None,
    deny: Annotated[bool, typer.Option("--deny", help="Deny instead of allow; denials override permissions.")] = False,
) -> None:
    """Add ACLs: each operation for each principal on each resource. Existing ones stay."""
    resources = _resources(topics, groups, ids, tokens, users, cluster)
    if not resources:
        raise typer.BadParameter(
            "no resource: give --topic, --group, --transactional-id or --cluster", param_hint="--topic"
        )
    if not principals or not operations:
        raise typer.BadParameter(
            "no principal or operation: give --principal and --operation", param_hint="--principal"
        )
    acls = [
        Acl(
            resource.kind,
            resource.name or "",
            principal,
            _operation(operation),
            AclPermission.DENY if deny else AclPermission.ALLOW,
            host,
            PatternType.PREFIXED if prefixed else PatternType.LITERAL,
        )
        for resource in resources
        for principal in principals
        for operation in operations
        for host in hosts or ["*"]
    ]

    async def work(admin: Admin) -> list[BrokerError]:
        return list((await failures_of(admin.create_acls(acls))).values())

    end_with(run(access, work))
    note(f"added {counted(len(acls), 'ACL')}")


@app.command(
    epilog="Examples:\n\n"
    "cordwood acl delete --topic orders --principal User:alice\n\n"
    "cordwood acl delete --principal User:bob --yes"
)
@reaching_cluster
def delete(
    access: Access,
    topics: Topics = None,
    groups: Groups = None,
    ids: Ids = None,
    tokens: Tokens = None,
    users: Users = None,
    cluster: Cluster = False,
    prefixed: Prefixed = False,
    principals: Principals = None,
    operations: Operations = None,
    hosts: Hosts = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="All ACLs.")] = False,
    yes: YesDelete = False,
) -> None:
    """Delete the ACLs that match, as acl list shows them."""
    resources = _resources(topics, groups, ids, tokens, users, cluster)
    is_narrowed = bool(resources or principals or operations or hosts or prefixed)
    if is_narrowed == everything:
        raise typer.BadParameter("name ACLs to delete, or give --all", param_hint="--topic")
    filters = _filters(resources, principals, operations, hosts, prefixed, permission=AclPermission.ANY)
    found = run(access, lambda admin: _matching(admin, filters))
    if not found:
        note("no ACL matches")
        return
    confirm_deletion(counted(len(found), "ACL"), yes)

    async def work(admin: Admin) -> list[BrokerError]:
        return list((await failures_of(admin.delete_acls(filters))).values())

    end_with(run(access, work))
    note(f"deleted {counted(len(found), 'ACL')}")


async def _matching(admin: Admin, filters: Sequence[AclFilter]) -> list[Acl]:
    found = {acl: None for wanted in filters for acl in await admin.describe_acls(wanted)}
    return sorted(found, key=lambda acl: (acl.resource_type, acl.resource_name, acl.principal, acl.operation))


def _resources(
    topics: Sequence[str] | None,
    groups: Sequence[str] | None,
    ids: Sequence[str] | None,
    tokens: Sequence[str] | None,
    users: Sequence[str] | None,
    cluster: bool,
) -> list[_Resource]:
    named = {
        AclResourceType.TOPIC: topics,
        AclResourceType.GROUP: groups,
        AclResourceType.TRANSACTIONAL_ID: ids,
        AclResourceType.DELEGATION_TOKEN: tokens,
        AclResourceType.USER: users,
        AclResourceType.CLUSTER: [_CLUSTER_NAME] if cluster else None,
    }
    return [_Resource(kind, name) for kind, names in named.items() for name in names or []]


def _filters(
    resources: Sequence[_Resource],
    principals: Sequence[str] | None,
    operations: Sequence[str] | None,
    hosts: Sequence[str] | None,
    prefixed: bool,
    permission: AclPermission,
) -> list[AclFilter]:
    any_of: list[str | None] = [None]
    return [
        AclFilter(
            resource.kind,
            resource.name,
            principal,
            AclOperation.ANY if operation is None else _operation(operation),
            permission,
            host,
            PatternType.PREFIXED if prefixed else PatternType.ANY,
        )
        for resource in resources or [_Resource(AclResourceType.ANY, None)]
        for principal in principals or any_of
        for operation in operations or any_of
        for host in hosts or any_of
    ]


def _operation(text: str) -> AclOperation:
    name = text.upper().replace("-", "_")
    known = [each.name for each in AclOperation if each.name not in ("UNKNOWN", "ANY")]
    if name not in known:
        allowed = ", ".join(each.lower().replace("_", "-") for each in known)
        raise typer.BadParameter(f"{text!r} is not one of {allowed}", param_hint="--operation")
    return AclOperation[name]


def _as_json(acl: Acl) -> dict[str, Any]:
    return {
        "resourceType": acl.resource_type.name,
        "resourceName": acl.resource_name,
        "patternType": acl.pattern_type.name,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
    }
