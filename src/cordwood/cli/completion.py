"""What a shell offers for the name of a topic, group or transaction: those of the cluster, if it answers at once."""

import os
from collections.abc import Awaitable, Callable

import typer

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.admin.groups import list_groups
from cordwood.client.admin.transactions import list_transactions
from cordwood.client.client import Client
from cordwood.client.errors import ClientError
from cordwood.client.settings import Settings
from cordwood.runtime import event_loop
from cordwood.runtime.sockets import SocketNetwork

# Whoever pressed the key waits.
_PATIENCE_S = 1.0


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    async def names(client: Client) -> list[str]:
        return list(await client.all_topics())

    return _complete(ctx, incomplete, names)


def complete_group(ctx: typer.Context, incomplete: str) -> list[str]:
    async def names(client: Client) -> list[str]:
        return [group.id for group in await list_groups(client)]

    return _complete(ctx, incomplete, names)


def complete_transaction(ctx: typer.Context, incomplete: str) -> list[str]:
    async def names(client: Client) -> list[str]:
        return [transaction.transactional_id for transaction in await list_transactions(client)]

    return _complete(ctx, incomplete, names)


def _complete(ctx: typer.Context, incomplete: str, names: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    """Nothing at all when the cluster cannot be reached: a shell is no place for errors."""
    timeout_ms = round(_PATIENCE_S * 1000)
    settings = Settings(
        client_id="cordwood-completion",
        request_timeout_ms=timeout_ms,
        default_api_timeout_ms=timeout_ms,
        socket_connection_setup_timeout_ms=timeout_ms,
    )
    bootstrap = ctx.params.get("bootstrap") or os.environ.get("CORDWOOD_BOOTSTRAP") or "127.0.0.1:9092"

    async def work() -> list[str]:
        async with await Client.connect(parse_bootstrap(bootstrap), settings, network=SocketNetwork()) as client:
            return await names(client)

    try:
        return [name for name in event_loop.run(work()) if name.startswith(incomplete)]
    except ClientError:
        return []
