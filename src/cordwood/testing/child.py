"""The process of a `ProcessNode`: reads its settings as a line of JSON from stdin and prints its address to stdout.

It stops on SIGTERM, and at the end of stdin, which comes when the test process ends for any reason.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
from typing import Any

from cordwood.runtime.event_loop import run
from cordwood.testing.assembly import START_ERRORS, start_node, start_registry

_STDIN = 0


def main() -> None:
    setup = json.loads(_read_line())
    logging.basicConfig(
        level=setup["log_level"].upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    try:
        sys.exit(run(_serve(setup)))
    except START_ERRORS as error:
        _say({"error": str(error)})
        sys.exit(1)


async def _serve(setup: dict[str, Any]) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    node = await start_node(setup["settings"], setup["data"], setup["port"], stopped=stopped)
    loop.add_reader(_STDIN, stopped.set)
    registry = None if setup["registry_port"] is None else await start_registry(node, setup["registry_port"])
    _say({"bootstrap": node.bootstrap} | ({} if registry is None else {"registry": registry.url}))
    await node.stopped.wait()
    loop.remove_reader(_STDIN)
    if registry is not None:
        await registry.stop()
    await node.stop()
    return 0 if node.failure is None else 1


def _read_line() -> bytes:
    """Reads byte by byte: the event loop would not see bytes that a buffered reader takes beyond the line."""
    line = bytearray()
    while (byte := os.read(_STDIN, 1)) not in (b"", b"\n"):
        line += byte
    return bytes(line)


def _say(what: dict[str, str]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    main()
