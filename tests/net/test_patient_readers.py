"""Sockets that are read together: all of them in one turn of the loop, and each as if it were alone."""

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from cordwood.net.server import Server
from cordwood.runtime.network import Connection
from cordwood.runtime.transport.patient_readers import PatientReaders
from tests.net.net_support import client_of, echo, frame, serving, until

Run = Callable[[Coroutine[Any, Any, None]], None]


class Turns:
    """Counts those of the loop while it is open."""

    def __init__(self) -> None:
        self.count = 0
        self._loop = asyncio.get_running_loop()
        self._next = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        self.count += 1
        self._next = self._loop.call_soon(self._turn)

    def close(self) -> None:
        self._next.cancel()


def pairs(count: int) -> list[tuple[socket.socket, socket.socket]]:
    made = [socket.socketpair() for _ in range(count)]
    for pair in made:
        for end in pair:
            end.setblocking(False)
    return made


def close_all(made: list[tuple[socket.socket, socket.socket]]) -> None:
    for pair in made:
        for end in pair:
            end.close()


def test_data_for_several_connections_is_read_in_one_turn_of_the_loop(run: Run) -> None:
    async def main() -> None:
        readers = PatientReaders(asyncio.get_running_loop())
        made = pairs(5)
        turns = Turns()
        read_in: list[tuple[int, bytes]] = []
        for near, _ in made:
            readers.add(near.fileno(), lambda near=near: read_in.append((turns.count, near.recv(10))))  # type: ignore[misc]
        for content in (b"first", b"second", b"third"):
            read_in.clear()
            for _, far in made:
                far.send(content)
            await until(lambda: len(read_in) == 5)
            assert {content for _, content in read_in} == {content}
            assert len({turn for turn, _ in read_in}) == 1
        for near, _ in made:
            readers.remove(near.fileno())
        turns.close()
        close_all(made)

    run(main())


def test_one_that_is_removed_while_others_are_read_is_not_read(run: Run) -> None:
    async def main() -> None:
        readers = PatientReaders(asyncio.get_running_loop())
        made = pairs(2)
        left = [near for near, _ in made]
        read = []

        def read_alone() -> None:
            """The first of them removes the other one."""
            for near in list(left):
                try:
                    read.append(near.recv(10))
                except BlockingIOError:
                    continue
                readers.remove(near.fileno())
                left.remove(near)
                return

        for near, far in made:
            readers.add(near.fileno(), read_alone)
            far.send(b"x")
        await until(lambda: len(read) == 2)
        assert not left
        close_all(made)

    run(main())


def test_after_the_last_is_removed_nothing_is_watched_and_another_can_be_added(run: Run) -> None:
    async def main() -> None:
        readers = PatientReaders(asyncio.get_running_loop())
        made = pairs(1)
        [(near, far)] = made
        read: list[bytes] = []
        for content in (b"first", b"second"):
            readers.add(near.fileno(), lambda: read.append(near.recv(10)))
            far.send(content)
            await until(lambda: bool(read))
            assert read.pop() == content
            readers.remove(near.fileno())
            assert not readers._is_watched
            assert readers._timer is None
        close_all(made)

    run(main())


def connection_of(server: Server) -> Connection:
    (served,) = server
    return served._connection


def test_a_connection_that_is_patient_is_served_as_any_other(run: Run) -> None:
    async def main() -> None:
        async with serving(echo) as (server, address):
            async with client_of(address) as client:
                for number, is_patient in enumerate((False, True, True, False, True)):
                    content = b"%d" % number
                    await client.send(frame(content))
                    assert await client.receive_frame() == content
                    connection_of(server).set_patient(is_patient)
            # Its end is noticed.
            await until(lambda: len(server) == 0)

    run(main())


def test_a_patient_connection_continues_when_reading_resumes(run: Run) -> None:
    async def main() -> None:
        async with serving(echo) as (server, address), client_of(address) as client:
            await client.send(frame(b"first"))
            assert await client.receive_frame() == b"first"
            connection = connection_of(server)
            connection.pause_reading()
            connection.set_patient(True)
            connection.resume_reading()
            connection.pause_reading()
            await client.send(frame(b"second"))
            connection.resume_reading()
            assert await client.receive_frame() == b"second"

    run(main())
