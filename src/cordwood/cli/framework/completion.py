"""Shell completion: known settings, and the cluster's topics, groups, brokers and transactions, if it responds at
once."""

from collections.abc import Awaitable, Callable
from dataclasses import fields, replace

import typer

from cordwood.cli.connection.access import Access
from cordwood.cli.framework.hints import setting_names
from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import ConfigResourceType
from cordwood.client.errors import ClientError
from cordwood.runtime import event_loop
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import TlsError

# The user who pressed Tab is waiting.
_PATIENCE_S = 1.0


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    async def names(admin: Admin) -> list[str]:
        return list(await admin.list_topics(internal=True))

    return _complete(ctx, incomplete, names)


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    async def names(admin: Admin) -> list[str]:
        return [group.id for group in await admin.list_groups()]

    return _complete(ctx, incomplete, names)


def complete_broker(ctx: typer.Context, incomplete: str) -> list[str]:
    async def names(admin: Admin) -> list[str]:
        return [str(broker.id) for broker in (await admin.describe_cluster()).brokers]

    return _complete(ctx, incomplete, names)


def complete_topic_setting(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes --unset."""
    return [name for name in setting_names(ConfigResourceType.TOPIC) if name.startswith(incomplete)]


def complete_topic_assignment(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes --set."""
    return [f"{name}=" for name in complete_topic_setting(ctx, incomplete)]


def complete_broker_assignment(ctx: typer.Context, incomplete: str) -> list[str]:
    """Completes --set of `cordwood up`."""
    return [f"{name}=" for name in setting_names(ConfigResourceType.BROKER) if name.startswith(incomplete)]


def complete_transaction(ctx: typer.Context, incomplete: str) -> list[str]:
    async def names(admin: Admin) -> list[str]:
        return [transaction.transactional_id for transaction in await admin.list_transactions()]

    return _complete(ctx, incomplete, names)


def _complete(ctx: typer.Context, incomplete: str, names: Callable[[Admin], Awaitable[list[str]]]) -> list[str]:
    """Completes to nothing if the cluster cannot be reached: errors would garble the prompt."""
    given = {field.name: ctx.params.get(field.name) for field in fields(Access)}
    access = Access(**{name: value for name, value in given.items() if value is not None})

    async def work() -> list[str]:
        settings = replace(access, timeout_s=_PATIENCE_S).settings()
        async with Admin(replace(settings, client_id="cordwood-completion"), network=SocketNetwork()) as admin:
            return await names(admin)

    try:
        return [name for name in event_loop.run(work()) if name.startswith(incomplete)]
    except (ClientError, TlsError):
        return []
