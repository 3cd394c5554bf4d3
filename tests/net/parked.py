"""A handler that answers when a test says so."""

from collections.abc import Callable, Coroutine
from typing import Any

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.serving import Answer, Reply
from cordwood.runtime.network import SocketOptions
from tests.net.net_support import frame

Run = Callable[[Coroutine[Any, Any, None]], None]

SMALL_BUFFERS = SocketOptions(send_buffer_bytes=16_384, receive_buffer_bytes=16_384)


class Parked:
    """A handler that answers only on request; a request that starts with "now" is answered at once, and one that starts
    with "hold" holds those behind it."""

    def __init__(self) -> None:
        self.replies: dict[bytes, Reply] = {}

    def __call__(self, request: bytearray, connection: ConnectionInfo) -> Answer:
        if request.startswith(b"now"):
            return [frame(bytes(request))]
        reply = self.replies[bytes(request)] = Reply(holds=request.startswith(b"hold"))
        return reply

    def answer(self, request: bytes) -> None:
        self.replies.pop(request).answer([frame(request)])
