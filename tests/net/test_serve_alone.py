"""The fast path of a connection with one request at a time: answers are the same on both paths."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.framing import LARGE_BYTES
from cordwood.net.limits import Limits
from cordwood.net.server import Server
from cordwood.net.serving import Answer, BadRequest, Reply, ServedConnection
from cordwood.runtime.network import Part
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from tests.net.http_peer import Peer
from tests.net.net_support import frame

LIMITS = Limits(max_requests_in_work=3, max_held_bytes=2000, request_max_bytes=2 * LARGE_BYTES)
KINDS = [b"list", b"list", b"large", b"none", b"coroutine", b"reply", b"later", b"holds", b"view"]
BAD_SIZE = b"\xff\xff\xff\xff"
ENDS = [b"refused", b"failed", b"unsendable"]

Steps = list[tuple[list[bytes], float]]


@st.composite
def steps(draw: st.DrawFn) -> Steps:
    """Requests that are sent together, and how long it takes until the next are."""
    requests = st.sampled_from([*KINDS * 3, *ENDS])
    together = st.lists(requests, min_size=1, max_size=draw(st.sampled_from([1, 1, 5])))
    return draw(st.lists(st.tuples(together, st.sampled_from([0.0, 0.01, 1.0])), max_size=12))


class Served:
    """A handler with every kind of answer."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []

    def __call__(self, request: bytearray, connection: ConnectionInfo) -> Answer:
        kind, _, _ = bytes(request).partition(b" ")
        self.requests.append(bytes(request[:20]))
        answer = frame(bytes(request[:20]))
        match kind:
            case b"none":
                return None
            case b"refused":
                raise BadRequest("refused")
            case b"failed":
                raise ValueError("failed")
            case b"unsendable":
                return [None]  # type: ignore[list-item]
            case b"coroutine":
                return self._later(answer)
            case b"reply" | b"later" | b"holds":
                reply = Reply(holds=kind == b"holds")
                if kind == b"reply":
                    reply.answer([answer])
                else:
                    asyncio.get_running_loop().call_later(0.2, lambda: reply.answer([answer]))
                return reply
            case b"view":
                return [answer[:4], memoryview(request)[:20]]
        return [answer[:4], answer[4:], frame(bytes(3000))] if kind == b"large" else [answer]

    async def _later(self, answer: bytes) -> list[Part] | None:
        await asyncio.sleep(0.1)
        return [answer]


@settings(max_examples=200, deadline=None)
@given(steps(), st.sampled_from([b"", BAD_SIZE, b"\0\0"]), st.booleans())
@example([([b"list"], 0.0)], BAD_SIZE, False)
@example([([b"large"], 0.0), ([b"list"], 0.0)], b"", True)
def test_one_request_is_served_as_several_are(sent: Steps, at_the_end: bytes, is_stopped: bool) -> None:
    fast = outcome(sent, at_the_end, is_stopped=is_stopped)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServedConnection, "_serve_alone", serve_in_general)
        assert fast == outcome(sent, at_the_end, is_stopped=is_stopped)


def serve_in_general(connection: ServedConnection, request: bytearray) -> None:
    connection._backlog.append(request)
    connection._advance()


def outcome(sent: Steps, at_the_end: bytes, *, is_stopped: bool) -> tuple[object, ...]:
    """The requests of the handler, the bytes of the peer, and the end of the connection."""
    world = World(1, odds=NetworkOdds(delay_s=0.001, slow=0.0, split=0.0), limit_s=1000)
    handler = Served()
    told: list[object] = []

    async def main() -> None:
        server = Server(world.network.host("server"), handler, LIMITS)
        address = await server.listen("TEST", "server", 0)
        peer = await Peer.connect(world.network.host("client"), address)
        number = 0
        for step, (together, wait_s) in enumerate(sent, 1):
            requests = []
            for kind in together:
                number += 1
                filling = bytes(LARGE_BYTES) if kind == b"view" else b""
                requests.append(frame(b"%s %d" % (kind, number) + filling))
            if step == len(sent):
                # With the last request, so that both are read at once.
                requests.append(at_the_end)
            if not peer.is_lost:
                peer.send(b"".join(requests))
            await asyncio.sleep(wait_s)
        await asyncio.sleep(0.01 if is_stopped else 10)
        if is_stopped:
            await server.stop(grace_seconds=5)
            await asyncio.sleep(1)
        told.extend((handler.requests, bytes(peer.heard), peer.is_lost, replace(server.counts)))
        if not is_stopped:
            await server.stop(grace_seconds=0)

    world.run(main())
    return tuple(told)
