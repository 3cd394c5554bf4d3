"""Buffer sizes of a node's connections: `socket.receive.buffer.bytes`, and more for bulk."""

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from tests.broker.in_process import node_at, run

SENT_BYTES = 150_000
# Linux doubles the value, for its own needs.
FACTOR = 2 if sys.platform == "linux" else 1


@pytest.mark.parametrize(
    ("said", "begins_with", "is_enlarged"),
    [
        ({}, 102_400, True),
        ({"socket_receive_buffer_bytes": "102400"}, 102_400, True),
        ({"socket_receive_buffer_bytes": "40000"}, 40_000, False),
    ],
    ids=["nothing said", "the default said", "chosen"],
)
def test_a_buffer_grows_unless_its_size_was_chosen(
    tmp_path: Path, said: dict[str, str], begins_with: int, is_enlarged: bool
) -> None:
    async def main() -> None:
        async with node_at(tmp_path, **said) as opened:
            address = opened.node.addresses["PLAINTEXT"]
            _, writer = await asyncio.open_connection(address.host, address.port)
            while len(opened.node.server) == 0:
                await asyncio.sleep(0.001)
            (served,) = opened.node.server
            sock: socket.socket = served._connection._sock  # type: ignore[attr-defined]
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == begins_with * FACTOR
            writer.write(SENT_BYTES.to_bytes(4, "big") + bytes(SENT_BYTES - 1))
            # All of it is there, but for the last byte.
            while served.buffered_bytes < SENT_BYTES - 1:
                await asyncio.sleep(0.001)
            has_more = sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) > begins_with * FACTOR
            assert has_more == is_enlarged
            writer.transport.abort()

    run(main())
