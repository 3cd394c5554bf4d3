"""One HTTP/1.1 exchange with a server, over the Network port. For nodes that ask each other, some times a second."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

import h11

from cordwood.runtime.network import Address, ConnectionLost, Network, NetworkError
from cordwood.runtime.tls import ClientTls

_SCRATCH_BYTES = 1 << 16


class HttpAnswer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


async def request(
    network: Network,
    address: Address,
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
    timeout_s: float,
    tls: ClientTls | None = None,
) -> HttpAnswer:
    """Uses a new connection; with `tls`, https. Raises `CannotConnect` if nothing was sent, and another `NetworkError`
    if there is no response in time."""
    try:
        async with asyncio.timeout(timeout_s):
            connection = await network.connect(address.host, address.port, tls)
            reception = _Reception()
            connection.start(reception)
            try:
                own = {"host": str(address), "content-length": str(len(body)), "connection": "close"}
                connection.send([reception.encoded(method, target, {**headers, **own}, body)])
                return await reception.answer
            finally:
                connection.abort()
    except TimeoutError:
        raise ConnectionLost(f"{address}: no answer within {timeout_s:g} s") from None


class _Reception:
    """Receives the answer."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[HttpAnswer] = asyncio.get_running_loop().create_future()
        self._h11 = h11.Connection(h11.CLIENT)
        self._scratch = bytearray(_SCRATCH_BYTES)
        self._head: h11.Response | None = None
        self._body = bytearray()

    def encoded(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        events: list[h11.Event] = [h11.Request(method=method, target=target, headers=list(headers.items()))]
        if body:
            events.append(h11.Data(data=body))
        events.append(h11.EndOfMessage())
        return b"".join(self._h11.send(event) or b"" for event in events)

    def buffer(self) -> bytearray:
        return self._scratch

    def received(self, count: int) -> None:
        self._h11.receive_data(bytes(self._scratch[:count]))
        self._advance()

    def sent(self) -> None:
        pass

    def lost(self, error: ConnectionLost | None) -> None:
        if not self.answer.done():
            self._h11.receive_data(b"")
            self._advance()
        self._fail(error if error is not None else ConnectionLost("the server closed the connection"))

    def _advance(self) -> None:
        try:
            while not self.answer.done():
                event = self._h11.next_event()
                if isinstance(event, h11.Response):
                    self._head = event
                elif isinstance(event, h11.Data):
                    self._body += event.data
                elif isinstance(event, h11.EndOfMessage):
                    assert self._head is not None
                    headers = {name.decode(): value.decode("latin-1") for name, value in self._head.headers}
                    self.answer.set_result(HttpAnswer(self._head.status_code, headers, bytes(self._body)))
                elif event is h11.NEED_DATA or isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
                    return
        except h11.RemoteProtocolError as error:
            self._fail(ConnectionLost(f"the answer is not HTTP: {error}"))

    def _fail(self, error: NetworkError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)
