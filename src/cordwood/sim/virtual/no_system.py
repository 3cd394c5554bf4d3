"""Operating system features of an event loop that a simulated one lacks."""

import asyncio
from collections.abc import Callable
from typing import Any


def _absent(name: str) -> Callable[..., Any]:
    def method(self: asyncio.AbstractEventLoop, *args: Any, **options: Any) -> Any:
        raise NotImplementedError(f"a simulated loop has no {name}: use the ports (Network, Disk, Clock)")

    return method


class LoopWithoutSystem(asyncio.AbstractEventLoop):
    add_reader: Any = _absent("add_reader")
    remove_reader: Any = _absent("remove_reader")
    add_writer: Any = _absent("add_writer")
    remove_writer: Any = _absent("remove_writer")
    add_signal_handler: Any = _absent("add_signal_handler")
    remove_signal_handler: Any = _absent("remove_signal_handler")
    getaddrinfo: Any = _absent("getaddrinfo")
    getnameinfo: Any = _absent("getnameinfo")
    create_connection: Any = _absent("create_connection")
    create_server: Any = _absent("create_server")
    create_unix_connection: Any = _absent("create_unix_connection")
    create_unix_server: Any = _absent("create_unix_server")
    create_datagram_endpoint: Any = _absent("create_datagram_endpoint")
    connect_accepted_socket: Any = _absent("connect_accepted_socket")
    connect_read_pipe: Any = _absent("connect_read_pipe")
    connect_write_pipe: Any = _absent("connect_write_pipe")
    subprocess_exec: Any = _absent("subprocess_exec")
    subprocess_shell: Any = _absent("subprocess_shell")
    sendfile: Any = _absent("sendfile")
    sock_accept: Any = _absent("sock_accept")
    sock_connect: Any = _absent("sock_connect")
    sock_recv: Any = _absent("sock_recv")
    sock_recv_into: Any = _absent("sock_recv_into")
    sock_recvfrom: Any = _absent("sock_recvfrom")
    sock_recvfrom_into: Any = _absent("sock_recvfrom_into")
    sock_sendall: Any = _absent("sock_sendall")
    sock_sendfile: Any = _absent("sock_sendfile")
    sock_sendto: Any = _absent("sock_sendto")
    start_tls: Any = _absent("start_tls")
    set_default_executor: Any = _absent("set_default_executor")
