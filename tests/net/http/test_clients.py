"""The HTTP server over real sockets, asked by clients that others wrote: curl, http.client, a plain socket."""

import asyncio
import http.client
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from cordwood.net.http.limits import HttpLimits
from cordwood.net.http.server import HttpServer
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.network import Address
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientAuth, ServerTls
from tests.net.certificates import Authority, authority

Run = Callable[[Coroutine[Any, Any, None]], None]

BODY = bytes(range(256)) * 3_000


async def greet(request: Request) -> Response:
    return JSONResponse({"hello": request.path_params["name"], "scheme": request.url.scheme})


async def echo(request: Request) -> Response:
    return Response(await request.body(), media_type="application/octet-stream")


async def stream(request: Request) -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(BODY), 100_000):
            yield BODY[start : start + 100_000]
            await asyncio.sleep(0)

    return StreamingResponse(pieces(), media_type="application/octet-stream")


async def wait(request: Request) -> Response:
    request.app.state.is_waiting.set()
    await request.app.state.gate.wait()
    return PlainTextResponse("waited")


ROUTES = [
    Route("/greet/{name}", greet),
    Route("/echo", echo, methods=["POST", "PUT"]),
    Route("/stream", stream),
    Route("/wait", wait),
]


@asynccontextmanager
async def serving(
    tls: ServerTls | None = None, limits: HttpLimits | None = None
) -> AsyncIterator[tuple[HttpServer, Address, Starlette]]:
    server = HttpServer(SocketNetwork(), SystemClock(), limits)
    app = Starlette(routes=ROUTES)
    app.state.gate = asyncio.Event()
    app.state.is_waiting = asyncio.Event()
    address = await server.serve(app, "127.0.0.1", 0, tls)
    try:
        yield server, address, app
    finally:
        await server.stop(grace_seconds=0)
        assert len(server) == 0


async def curl(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return await asyncio.to_thread(subprocess.run, ["curl", "--silent", *arguments], capture_output=True, check=False)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return authority(tmp_path, "ca")


def test_curl(run: Run, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(BODY)

    async def main() -> None:
        async with serving() as (_, address, _app):
            url = f"http://{address}"
            assert (await curl(f"{url}/greet/Ann%20Lee")).stdout == b'{"hello":"Ann Lee","scheme":"http"}'
            assert (await curl(f"{url}/stream")).stdout == BODY
            # Large bodies are announced with Expect: 100-continue.
            posted = await curl("--data-binary", f"@{tmp_path}/body", f"{url}/echo")
            assert posted.stdout == BODY
            chunked = ("-H", "Transfer-Encoding: chunked", "--data-binary", f"@{tmp_path}/body")
            assert (await curl(*chunked, f"{url}/echo")).stdout == BODY
            head = await curl("--head", f"{url}/greet/you")
            assert head.stdout.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"content-length: 31\r\n" in head.stdout
            old = await curl("--http1.0", f"{url}/greet/you", f"{url}/stream")
            assert old.stdout == b'{"hello":"you","scheme":"http"}' + BODY

    run(main())


def test_curl_uses_one_connection_for_many_requests(run: Run) -> None:
    async def main() -> None:
        async with serving() as (_, address, _app):
            urls = [f"http://{address}/greet/{number}" for number in range(5)]
            done = await curl("-w", "%{stderr}%{num_connects} ", *urls)
            assert done.stderr.split() == [b"1", b"0", b"0", b"0", b"0"]

    run(main())


def test_curl_gets_413_for_a_large_body(run: Run, tmp_path: Path) -> None:
    (tmp_path / "body").write_bytes(bytes(5_000_000))

    async def main() -> None:
        async with serving(limits=HttpLimits(max_body_bytes=1_000_000)) as (_, address, _app):
            for extra in ("Expect: 100-continue", "Expect:", "Transfer-Encoding: chunked"):
                done = await curl(
                    "-H", extra, "-o", "/dev/null", "-w", "%{http_code}",
                    "--data-binary", f"@{tmp_path}/body", f"http://{address}/echo",
                )  # fmt: skip
                assert (extra, done.stdout) == (extra, b"413")

    run(main())


def test_python_http_client_keeps_its_connection(run: Run) -> None:
    def ask(address: Address) -> None:
        connection = http.client.HTTPConnection(address.host, address.port)
        sockets = set()
        for _ in range(3):
            connection.request("POST", "/echo", BODY)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (200, BODY)
            sockets.add(connection.sock)
            connection.request("PUT", "/echo", iter([b"one", b"two"]), encode_chunked=True)
            assert connection.getresponse().read() == b"onetwo"
            connection.request("GET", "/stream")
            assert connection.getresponse().read() == BODY
            connection.request("HEAD", "/stream")
            assert connection.getresponse().read() == b""
            connection.request("DELETE", "/echo")
            answer = connection.getresponse()
            assert answer.status == 405
            answer.read()
        assert len(sockets) == 1
        connection.close()

    async def main() -> None:
        async with serving() as (_, address, _app):
            await asyncio.to_thread(ask, address)

    run(main())


def test_a_peer_that_closes_its_sending_side_still_gets_its_answer(run: Run) -> None:
    def ask(address: Address) -> bytes:
        with socket.create_connection((address.host, address.port)) as sock:
            sock.sendall(b"GET /greet/you HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
            sock.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: sock.recv(4096), b""))

    async def main() -> None:
        async with serving() as (_, address, _app):
            assert (await asyncio.to_thread(ask, address)).endswith(b'{"hello":"you","scheme":"http"}')

    run(main())


def test_a_peer_that_reads_slowly_gets_everything(run: Run) -> None:
    def ask(address: Address) -> bytes:
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.connect((address.host, address.port))
            sock.sendall(b"GET /stream HTTP/1.0\r\n\r\n")
            return b"".join(iter(lambda: sock.recv(1000), b""))

    async def main() -> None:
        async with serving(limits=HttpLimits(max_buffered_bytes=1000)) as (_, address, _app):
            assert (await asyncio.to_thread(ask, address)).partition(b"\r\n\r\n")[2] == BODY

    run(main())


def test_a_request_in_flight_is_answered_when_the_server_stops(run: Run) -> None:
    async def main() -> None:
        async with serving() as (server, address, app):
            asking = asyncio.create_task(curl("-D", "-", f"http://{address}/wait"))
            await app.state.is_waiting.wait()
            stopping = asyncio.create_task(server.stop(grace_seconds=30))
            while (await curl(f"http://{address}/greet/you")).returncode == 0:
                pass
            app.state.gate.set()
            await stopping
            answered = (await asking).stdout
            assert answered.endswith(b"waited")
            assert b"connection: close\r\n" in answered

    run(main())


def test_tls(run: Run, ca: Authority) -> None:
    async def main() -> None:
        async with serving(ServerTls(ca.issue("node"))) as (_, address, _app):
            url = f"https://{address}"
            trusting = ("--cacert", ca.ca_file)
            assert (await curl(*trusting, f"{url}/greet/you")).stdout == b'{"hello":"you","scheme":"https"}'
            assert (await curl(*trusting, f"{url}/stream")).stdout == BODY
            assert (await curl(*trusting, "-d", "x=y", f"{url}/echo")).stdout == b"x=y"
            # A client that does not trust the certificate, and one that does not speak TLS.
            assert (await curl(f"{url}/greet/you")).returncode == 60
            assert (await curl(f"http://{address}/greet/you")).returncode != 0

    run(main())


def test_tls_may_request_a_client_certificate(run: Run, ca: Authority) -> None:
    keys = ca.issue("client")
    assert keys.key_file is not None
    key_file = keys.key_file

    def ask(address: Address, *, with_keys: bool) -> bytes:
        context = ssl.create_default_context(cafile=ca.ca_file)
        if with_keys:
            context.load_cert_chain(keys.certificate_file, key_file)
        connection = http.client.HTTPSConnection(address.host, address.port, context=context)
        try:
            connection.request("GET", "/greet/you")
            return connection.getresponse().read()
        finally:
            connection.close()

    async def main() -> None:
        tls = ServerTls(ca.issue("node"), ClientAuth.REQUIRED, ca.ca_file)
        async with serving(tls) as (_, address, _app):
            assert await asyncio.to_thread(ask, address, with_keys=True) == b'{"hello":"you","scheme":"https"}'
            with pytest.raises(OSError):  # noqa: PT011  # how the refusal is heard of depends on timing
                await asyncio.to_thread(ask, address, with_keys=False)

    run(main())


def test_several_apps_on_several_listeners(run: Run) -> None:
    async def one(request: Request) -> Response:
        return PlainTextResponse("one")

    async def main() -> None:
        async with serving() as (server, address, _app):
            other = await server.serve(Starlette(routes=[Route("/", one)]), "127.0.0.1", 0)
            assert (await curl(f"http://{other}/")).stdout == b"one"
            assert (await curl(f"http://{other}/greet/you")).stdout == b"Not Found"
            assert (await curl(f"http://{address}/greet/you")).stdout.startswith(b'{"hello"')

    run(main())
