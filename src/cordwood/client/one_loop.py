"""Ties an async client to one event loop: in another its tasks do not run, and waiting for them would hang."""

import asyncio

from cordwood.client.errors import IllegalState


def check_loop(own: asyncio.AbstractEventLoop, what: str) -> None:
    """Raises `IllegalState` on another loop, or without one. `what` is "producer" and so on."""
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return
    if running is not own:
        raise in_another_loop(what)


def in_another_loop(what: str) -> IllegalState:
    error = IllegalState(f"the {what} belongs to the event loop that started it, not to the running one")
    error.what_to_do = f"create one {what} per event loop, or use the thread-safe one from `cordwood`"
    return error
