"""A TCP proxy that cuts connections in the middle of what they carry.

Where it cuts is a matter of bytes, not of time: each connection may carry so many bytes one way, by the seed, and is
then reset on both sides. A request may so be lost whole or in part, or arrive and only its response be lost.
"""

import asyncio
import random
import socket
import struct
import threading
from collections.abc import Coroutine
from typing import Any, Self, TypeVar

T = TypeVar("T")

# Reset instead of an orderly end.
_NO_LINGER = struct.pack("ii", 1, 0)


class CuttingProxy:
    """Listens from the start; `target` may be set later."""

    def __init__(self, seed: int, *, mean_request_bytes: int, mean_response_bytes: int, port: int = 0) -> None:
        self.cutting = True
        self.cuts = 0
        self.target = ("", 0)
        self._random = random.Random(seed)
        self._mean_bytes = {True: mean_request_bytes, False: mean_response_bytes}
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cutting proxy", daemon=True)
        self._thread.start()
        self._server = self._run(self._listen(port))
        self.port: int = self._server.sockets[0].getsockname()[1]

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self, port: int) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", port)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._keep(writer)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self.target)
        except OSError:
            self._reset(writer)
            return
        self._keep(far_writer)
        upwards = self._random.random() < 0.5
        budget = int(self._random.expovariate(1 / self._mean_bytes[upwards]))
        both = (writer, far_writer)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._carry(reader, far_writer, budget if upwards else None, both))
            group.create_task(self._carry(far_reader, writer, None if upwards else budget, both))

    async def _carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        budget: int | None,
        both: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        try:
            while piece := await reader.read(65536):
                if budget is not None and self.cutting:
                    if len(piece) >= budget:
                        # Bytes before the cut arrive.
                        writer.write(piece[:budget])
                        await writer.drain()
                        self.cuts += 1
                        break
                    budget -= len(piece)
                writer.write(piece)
                await writer.drain()
        except OSError:
            pass
        for side in both:
            self._reset(side)

    def _keep(self, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)

    def _reset(self, writer: asyncio.StreamWriter) -> None:
        if writer in self._writers:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _close(self) -> None:
        self._server.close()
        for writer in list(self._writers):
            self._reset(writer)
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
