"""An async client belongs to one event loop: in another its tasks do not run, and waiting for them would not end."""

import asyncio

from cordwood.client.errors import IllegalState


def check_loop(own: asyncio.AbstractEventLoop, what: str) -> None:
    """Raises `IllegalState` in another; where none runs, nobody can wait. `what` is "producer" and so on."""
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
