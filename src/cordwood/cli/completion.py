"""What a shell offers for a topic's name: those of the cluster, if it answers at once."""

import os

import typer

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.client import Client
from cordwood.client.errors import ClientError
from cordwood.client.settings import Settings
from cordwood.runtime import event_loop
from cordwood.runtime.sockets import SocketNetwork

# Whoever pressed the key waits.
_PATIENCE_S = 1.0


def complete_topic(ctx: typer.Context, incomplete: str) -> list[str]:
    """Nothing at all when the cluster cannot be reached: a shell is no place for errors."""
    timeout_ms = round(_PATIENCE_S * 1000)
    settings = Settings(
        client_id="cordwood-completion",
        request_timeout_ms=timeout_ms,
        default_api_timeout_ms=timeout_ms,
        socket_connection_setup_timeout_ms=timeout_ms,
    )
    bootstrap = ctx.params.get("bootstrap") or os.environ.get("CORDWOOD_BOOTSTRAP") or "127.0.0.1:9092"

    async def names() -> list[str]:
        async with await Client.connect(parse_bootstrap(bootstrap), settings, network=SocketNetwork()) as client:
            return list(await client.all_topics())

    try:
        return [name for name in event_loop.run(names()) if name.startswith(incomplete)]
    except ClientError:
        return []
