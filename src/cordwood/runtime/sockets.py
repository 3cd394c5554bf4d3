"""The real Network: listens, accepts and connects with non-blocking sockets, on an asyncio or uvloop event loop."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from typing import Any

from cordwood.runtime.transport.bulk_buffers import BulkBuffers
from cordwood.runtime.transport.patient_readers import PatientReaders
from cordwood.runtime.transport.socket_connection import SocketConnection, address_of, reason_of
from cordwood.runtime.transport.tls_connection import TlsConnection

from .network import (
    CannotConnect,
    CannotListen,
    Connection,
    ConnectionLost,
    Listener,
    ListenProblem,
    SocketOptions,
)
from .tls import ClientTls, ServerTls

_log = logging.getLogger(__name__)

_ACCEPTS_PER_TURN = 64
# The process or the machine is short of descriptors or memory: an immediate retry would only spin.
_SHORTAGES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_SHORTAGE_PAUSE_S = 0.5


class SocketNetwork:
    """See `Network`. Without an explicit loop, uses the one in which it is first called."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._given_loop = loop
        self._patient_readers: PatientReaders | None = None

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        if self._given_loop is None:
            self._given_loop = asyncio.get_running_loop()
        return self._given_loop

    async def listen(
        self,
        host: str,
        port: int,
        accept: Callable[[Connection], None],
        tls: ServerTls | None = None,
        options: SocketOptions | None = None,
    ) -> Listener:
        options = options if options is not None else SocketOptions()
        try:
            sock = await self._bind(host, port, options)
        except OSError as error:
            raise CannotListen(host, port, reason_of(error), listen_problem(error)) from error
        if self._patient_readers is None and PatientReaders.are_there():
            self._patient_readers = PatientReaders(self._loop)
        return SocketListener(self._loop, sock, accept, tls, options, self._patient_readers)

    async def connect(
        self, host: str, port: int, tls: ClientTls | None = None, options: SocketOptions | None = None
    ) -> Connection:
        try:
            sock = await self._dial(host, port, options if options is not None else SocketOptions())
        except OSError as error:
            is_refused = isinstance(error, ConnectionRefusedError)
            raise CannotConnect(host, port, reason_of(error), is_refused=is_refused) from error
        connection = SocketConnection(self._loop, sock)
        if tls is None:
            return connection
        secured = TlsConnection(self._loop, connection, tls.context, server_side=False, server_hostname=host)
        try:
            await secured.handshake()
        except ConnectionLost as error:
            raise CannotConnect(host, port, str(error)) from error
        except BaseException:
            secured.abort()
            raise
        return secured

    async def _bind(self, host: str, port: int, options: SocketOptions) -> socket.socket:
        if not host:
            return _bind_everywhere(port, options)
        found = await self._resolve(host, port)
        family, _, _, _, address = found[0]
        return _bind(socket.AddressFamily(family), address, options, dual_stack=False)

    async def _dial(self, host: str, port: int, options: SocketOptions) -> socket.socket:
        failure: OSError | None = None
        for family, kind, protocol, _, address in await self._resolve(host, port):
            sock = socket.socket(family, kind, protocol)
            try:
                sock.setblocking(False)
                _set_buffers(sock, options)
                await self._loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure = error
            except BaseException:
                sock.close()
                raise
            else:
                return sock
        raise failure or OSError(f"{host} does not resolve to an address")

    async def _resolve(self, host: str, port: int) -> list[Any]:
        try:
            return await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except RuntimeError:
            # An exiting interpreter starts no threads. Clients with unsent data block here instead.
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except UnicodeError as error:
            raise socket.gaierror(socket.EAI_NONAME, f"not a valid host name ({error})") from error


def ip_addresses(host: str) -> frozenset[str]:
    """Looks up a host's addresses, which may take a moment; returns the name itself if it has none."""
    try:
        return frozenset(str(entry[4][0]) for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return frozenset({host})


class SocketListener:
    """See `Listener`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        accept: Callable[[Connection], None],
        tls: ServerTls | None,
        options: SocketOptions,
        patient_readers: PatientReaders | None = None,
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._accept = accept
        self._patient_readers = patient_readers
        self._tls = tls
        self._options = options
        bulk_bytes = options.bulk_receive_buffer_bytes
        self._bulk_buffers = BulkBuffers(bulk_bytes) if bulk_bytes >= 0 else None
        self._accepting = False
        self._retry: asyncio.TimerHandle | None = None
        self.address = address_of(sock.getsockname())
        self.resume()

    def pause(self) -> None:
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._accepting:
            self._accepting = False
            self._loop.remove_reader(self._sock.fileno())

    def resume(self) -> None:
        if not self._accepting and self._sock.fileno() >= 0:
            self.pause()
            self._accepting = True
            self._loop.add_reader(self._sock.fileno(), self._on_peers)

    def close(self) -> None:
        self.pause()
        self._sock.close()

    def _on_peers(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            if not self._accepting:
                return
            try:
                sock, _address = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _SHORTAGES:
                    raise
                _log.error("Cannot accept connections on %s, retrying: %s", self.address, reason_of(error))
                self.pause()
                self._retry = self._loop.call_later(_SHORTAGE_PAUSE_S, self.resume)
                return
            self._welcome(sock)

    def _welcome(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        try:
            _set_buffers(sock, self._options)
            connection = SocketConnection(self._loop, sock, self._patient_readers, self._bulk_buffers)
        except OSError:
            # The peer disconnected before it was accepted.
            sock.close()
            return
        if self._tls is None:
            self._accept(connection)
        else:
            self._accept(TlsConnection(self._loop, connection, self._tls.context, server_side=True))


def listen_problem(error: OSError) -> ListenProblem:
    if isinstance(error, socket.gaierror):
        return ListenProblem.HOST_UNKNOWN
    return _LISTEN_PROBLEMS.get(error.errno or 0, ListenProblem.OTHER)


_LISTEN_PROBLEMS = {
    errno.EADDRINUSE: ListenProblem.PORT_TAKEN,
    errno.EACCES: ListenProblem.NO_PERMISSION,
    errno.EPERM: ListenProblem.NO_PERMISSION,
    errno.EADDRNOTAVAIL: ListenProblem.ADDRESS_NOT_LOCAL,
}


def _bind_everywhere(port: int, options: SocketOptions) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return _bind(socket.AF_INET6, ("::", port), options, dual_stack=True)
        except OSError as error:
            # Python has IPv6, but the machine has it disabled.
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    return _bind(socket.AF_INET, ("0.0.0.0", port), options, dual_stack=False)


def _bind(family: socket.AddressFamily, address: Any, options: SocketOptions, *, dual_stack: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        # A restarted node must not be blocked by connections of its port that have just ended.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not dual_stack)
        # Peers learn the maximum buffer size when they connect, from the listening socket: do not set it here if it
        # should grow later.
        if options.bulk_receive_buffer_bytes < 0:
            _set_buffers(sock, options)
        sock.bind(address)
        sock.listen(options.listen_backlog)
    except BaseException:
        sock.close()
        raise
    return sock


def _set_buffers(sock: socket.socket, options: SocketOptions) -> None:
    if options.send_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
    if options.receive_buffer_bytes >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)
