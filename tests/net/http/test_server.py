"""The HTTP server over simulated networks that cut and delay what is sent; time is virtual."""

import asyncio

import pytest

from cordwood.net.http.asgi import Receive, Scope, Send
from cordwood.net.http.limits import HttpLimits
from cordwood.net.http.server import HttpServer
from cordwood.sim.virtual.connection import NetworkOdds
from cordwood.sim.world import World
from tests.net.http_peer import Connect, Peer, answer, echo, in_worlds, read_body

GET = b"GET /metrics?a=b HTTP/1.1\r\nHost: node\r\n\r\n"


def post(body: bytes, *headers: bytes) -> bytes:
    head = [b"POST / HTTP/1.1", b"Host: node", b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join([*head, b"", body])


# Requests and responses


def test_a_connection_serves_one_request_after_the_other() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        for _ in range(3):
            peer.send(GET)
            answered = await peer.answer()
            assert (answered.status, answered.body) == (200, b"hello /metrics a=b")
            assert "connection" not in answered.headers

    in_worlds(test)


def test_pipelined_requests_are_answered_in_order_and_one_at_a_time() -> None:
    at_work = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal at_work
        at_work += 1
        assert at_work == 1
        await asyncio.sleep(0.01)
        await answer(send, scope["path"].encode() + await read_body(receive))
        at_work -= 1

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        for number in range(20):
            peer.send(b"PUT /%d HTTP/1.1\r\nHost: node\r\nContent-Length: 3\r\n\r\nabc" % number)
        assert [(await peer.answer()).body for _ in range(20)] == [b"/%dabc" % number for number in range(20)]

    in_worlds(test, app)


def test_a_request_may_come_byte_by_byte() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        for byte in post(b"hello"):
            peer.send(bytes([byte]))
            await asyncio.sleep(0.01)
        assert (await peer.answer()).body == b"hello"

    in_worlds(test, echo)


def test_chunked_request_bodies_are_put_together() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n")
        peer.send(b"5\r\nhello\r\n", b"7;x=y\r\n, world\r\n", b"0\r\nTrailer: x\r\n\r\n")
        assert (await peer.answer()).body == b"hello, world"

    in_worlds(test, echo)


def test_a_body_of_unknown_length_is_chunked_and_the_connection_stays_open() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for number in range(5):
            await asyncio.sleep(1)
            await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
        await send({"type": "http.response.body"})

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        for _ in range(2):
            peer.send(GET)
            answered = await peer.answer()
            assert answered.headers["transfer-encoding"] == "chunked"
            assert answered.body == b"01234"
        peer.send(b"GET / HTTP/1.0\r\n\r\n")
        await peer.until_lost()
        head, _, body = bytes(peer.heard).partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert body == b"01234"

    in_worlds(test, app)


def test_a_stream_is_seen_piece_by_piece_and_its_head_at_once() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await asyncio.sleep(100)
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await asyncio.sleep(100)
        await send({"type": "http.response.body", "body": b"second"})

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        began = asyncio.get_running_loop().time()

        async def heard_after(what: bytes) -> int:
            await peer.until(lambda peer: what in peer.heard)
            return round(asyncio.get_running_loop().time() - began)

        peer.send(GET)
        times = [await heard_after(what) for what in (b"200 OK", b"first", b"second")]
        assert [time // 100 for time in times] == [0, 1, 2]

    in_worlds(test, app)


def test_head_is_answered_without_the_body() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        for _ in range(2):
            peer.send(b"HEAD / HTTP/1.1\r\nHost: node\r\n\r\n")
            answered = await peer.answer("HEAD")
            assert (answered.headers["content-length"], answered.body) == ("8", b"")
        assert peer.heard == b""

    in_worlds(test)


def test_responses_have_a_date() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        date = (await peer.answer()).headers["date"]
        assert len(date) == len("Tue, 15 Nov 1994 08:12:31 GMT")
        assert date.endswith(" GMT")

    in_worlds(test)


@pytest.mark.parametrize(
    "request_",
    [b"GET / HTTP/1.0\r\n\r\n", b"GET / HTTP/1.1\r\nHost: node\r\nConnection: x, Close\r\n\r\n"],
    ids=["HTTP 1.0", "asked to"],
)
def test_the_connection_is_closed_after_an_answer(request_: bytes) -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(request_)
        await peer.until_lost()
        assert peer.heard.startswith(b"HTTP/1.1 200 OK\r\n")
        assert peer.heard.endswith(b"hello / ")

    in_worlds(test)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"\x00\x00\x00\x10\x00\x12\x00\x04\x00\x00\x00\x00\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : node\r\n\r\n", 400),
        (b"GET metrics HTTP/1.1\r\nHost: node\r\n\r\n", 400),
        (b"CONNECT node:80 HTTP/1.1\r\nHost: node\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 5, 6\r\n\r\nhello", 400),
        (b"POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: node\r\nX: " + b"x" * 20_000, 431),
        (b"GET / HTTP/1.1\r\nHost: node\r\nX: " + b"x" * 20_000 + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * 70_000, 431),
        (post(bytes(1001)), 413),
        (b"POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 9999999999\r\nExpect: 100-continue\r\n\r\n", 413),
        (b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n" + bytes(1001), 413),
    ],
    ids=[
        "Kafka",
        "no version",
        "no host",
        "a bad header",
        "no path",
        "CONNECT",
        "two lengths",
        "length and chunks",
        "an unknown coding",
        "a bad chunk",
        "a long head, unfinished",
        "a long head, complete",
        "a long target",
        "a long body",
        "a long body, announced",
        "a long body in chunks",
    ],
)
def test_a_request_that_is_bad_or_too_large_is_answered_and_ends_the_connection(request_: bytes, status: int) -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        # Answered, though the peer has more to say and the answer must not be lost for that.
        peer.send(request_, bytes(100_000))
        await peer.until_lost()
        assert peer.heard.startswith(f"HTTP/1.1 {status} ".encode())
        assert peer.heard.count(b"HTTP/1.1") == 1
        assert b"\r\nconnection: close\r\n" in peer.heard

    in_worlds(test, echo, HttpLimits(max_body_bytes=1000))


def test_a_bad_request_behind_a_good_one_is_refused_after_it() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET, b"nonsense\r\n\r\n")
        assert (await peer.answer()).status == 200
        assert (await peer.answer()).status == 400
        await peer.until_lost()

    in_worlds(test)


def test_a_body_at_the_limit_is_taken() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        body = bytes(range(250)) * 4
        peer.send(post(body), b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n")
        peer.send(b"3e8\r\n", body, b"\r\n0\r\n\r\n")
        assert (await peer.answer()).body == body
        assert (await peer.answer()).body == body

    in_worlds(test, echo, HttpLimits(max_body_bytes=1000))


# Expect: 100-continue


def test_expect_100_continue_is_answered_once_the_app_reads_the_body() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        head, body = post(b"hello", b"Expect: 100-continue").split(b"\r\n\r\n")
        for _ in range(2):
            peer.send(head + b"\r\n\r\n")
            assert (await peer.answer()).status == 100
            peer.send(body)
            assert (await peer.answer()).body == b"hello"

    in_worlds(test, echo)


def test_an_app_may_answer_without_reading_the_body() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        # Longer than a body may keep us waiting: this one is not late, it was not asked for.
        await asyncio.sleep(100)
        await answer(send, b"no", 403)

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
        answered = await peer.answer()
        assert (answered.status, answered.headers["connection"]) == (403, "close")
        await peer.until_lost()

    in_worlds(test, app)


# Apps that fail


def test_an_app_that_fails_is_a_500() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/late":
            await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] != "/silent":
            raise ZeroDivisionError

    async def test(_server: HttpServer, connect: Connect) -> None:
        for path in (b"/", b"/late", b"/silent"):
            peer = await connect()
            peer.send(b"GET %s HTTP/1.1\r\nHost: node\r\n\r\n" % path)
            assert (await peer.answer()).status == 500
            await peer.until_lost()

    in_worlds(test, app)


def test_an_app_that_fails_within_its_response_costs_the_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ZeroDivisionError

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        await peer.until_lost()
        # The chunk that would end the body is missing: no client takes it for the whole.
        assert not peer.heard.endswith(b"0\r\n\r\n")

    in_worlds(test, app)


@pytest.mark.parametrize(
    "messages",
    [
        [{"type": "http.response.body", "body": b"x"}],
        [{"type": "websocket.accept"}],
        [{"type": "http.response.start", "status": 200, "headers": [(b"x", b"a\r\nb: c")]}],
        [{"type": "http.response.start", "status": 99}],
        [{"type": "http.response.start", "status": 200}, {"type": "http.response.start", "status": 200}],
    ],
    ids=["no start", "another protocol", "a broken header", "a bad status", "two starts"],
)
def test_messages_that_make_no_response_are_the_apps_failure(messages: list[dict[str, object]]) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)
        await asyncio.sleep(1)

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        assert (await peer.answer()).status == 500

    in_worlds(test, app, seeds=range(2))


# Peers that are slow, or leave


@pytest.mark.parametrize("is_begun", [False, True], ids=["nothing", "part of a head"])
def test_a_peer_that_does_not_finish_its_first_head_in_time_is_cut_off(is_begun: bool) -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        began = asyncio.get_running_loop().time()
        for start in range(3):
            # Drop by drop, which does not help.
            peer.send(GET[start : start + 1] if is_begun else b"")
            await asyncio.sleep(3)
        await peer.until_lost()
        assert 9 < asyncio.get_running_loop().time() - began < 13
        assert peer.heard.startswith(b"HTTP/1.1 408 ") if is_begun else peer.heard == b""

    in_worlds(test, limits=HttpLimits(head_timeout_s=10))


def test_a_later_head_has_its_time_from_its_first_byte() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        await peer.answer()
        await asyncio.sleep(100)
        peer.send(GET[:5])
        await asyncio.sleep(8)
        peer.send(GET[5:])
        assert (await peer.answer()).status == 200
        peer.send(GET[:5])
        began = asyncio.get_running_loop().time()
        assert (await peer.answer()).status == 408
        assert 9 < asyncio.get_running_loop().time() - began < 12
        await peer.until_lost()

    in_worlds(test, limits=HttpLimits(head_timeout_s=10, keep_alive_timeout_s=120))


def test_a_connection_without_requests_is_closed_after_a_time() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        await peer.answer()
        began = asyncio.get_running_loop().time()
        await peer.until_lost()
        assert 119 < asyncio.get_running_loop().time() - began < 121
        assert peer.heard == b""

    in_worlds(test, limits=HttpLimits(keep_alive_timeout_s=120))


def test_a_body_may_take_long_as_long_as_it_moves() -> None:
    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        head, body = post(b"0123456789").split(b"\r\n\r\n")
        peer.send(head + b"\r\n\r\n")
        for byte in body[:-1]:
            await asyncio.sleep(20)
            peer.send(bytes([byte]))
        await asyncio.sleep(20)
        peer.send(body[-1:])
        assert (await peer.answer()).body == body
        peer.send(head + b"\r\n\r\n", body[:5])
        assert (await peer.answer()).status == 408
        await peer.until_lost()

    in_worlds(test, echo, HttpLimits(body_timeout_s=30))


def test_an_app_is_waited_for_longer_than_any_peer() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        await asyncio.sleep(1000)
        await answer(send, body)

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(post(b"hello"))
        assert (await peer.answer()).body == b"hello"

    in_worlds(test, app)


def test_an_unread_body_stops_the_reading() -> None:
    peak_bytes = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(100)
        await answer(send, str(len(await read_body(receive))).encode())

    async def test(_server: HttpServer, connect: Connect) -> None:
        nonlocal peak_bytes
        peer = await connect()
        peer.send(post(bytes(900_000)))
        await asyncio.sleep(50)
        peak_bytes = 900_000 - peer.connection.unsent_bytes
        assert (await peer.answer()).body == b"900000"

    in_worlds(test, app, HttpLimits(max_buffered_bytes=10_000), odds=NetworkOdds(window_bytes=20_000))
    assert peak_bytes < 100_000


def test_an_app_waits_for_a_peer_that_reads_slowly() -> None:
    sent_bytes = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent_bytes
        sent_bytes = 0
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(100):
            await send({"type": "http.response.body", "body": bytes(10_000), "more_body": True})
            sent_bytes += 10_000
        await send({"type": "http.response.body"})

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.connection.pause_reading()
        peer.send(GET)
        await asyncio.sleep(20)
        assert 0 < sent_bytes < 200_000
        peer.connection.resume_reading()
        assert len((await peer.answer()).body) == 1_000_000

    in_worlds(test, app, HttpLimits(max_buffered_bytes=20_000, write_timeout_s=30))


def test_a_peer_that_never_reads_is_dropped_and_its_app_notified() -> None:
    told: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": bytes(10_000), "more_body": True})
        except OSError:
            told.append((await receive())["type"])

    async def test(server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.connection.pause_reading()
        peer.send(GET)
        await asyncio.sleep(25)
        assert len(server) == 1
        await asyncio.sleep(10)
        assert len(server) == 0

    in_worlds(test, app, HttpLimits(write_timeout_s=30))
    assert told == ["http.disconnect"] * 5


def test_a_peer_that_reads_a_little_now_and_then_is_not_dropped() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, bytes(300_000))

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        for _ in range(10):
            peer.connection.pause_reading()
            await asyncio.sleep(25)
            before = len(peer.heard)
            peer.connection.resume_reading()
            await peer.until(lambda peer, before=before: len(peer.heard) > before or before > 300_000)  # type: ignore[misc]
        assert len((await peer.answer()).body) == 300_000

    in_worlds(test, app, HttpLimits(write_timeout_s=30), odds=NetworkOdds(window_bytes=10_000))


def test_a_waiting_app_is_notified_of_a_leaving_peer() -> None:
    heard: list[float] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        assert (await receive())["type"] == "http.disconnect"
        heard.append(asyncio.get_running_loop().time())
        with pytest.raises(OSError, match="has left"):
            await send({"type": "http.response.body", "body": b"late"})

    async def test(server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        await peer.until(lambda peer: b"200 OK" in peer.heard)
        await asyncio.sleep(500)
        left = asyncio.get_running_loop().time()
        peer.connection.close()
        await asyncio.sleep(1)
        assert heard.pop() - left < 1
        assert len(server) == 0

    in_worlds(test, app)


def test_a_waiting_app_is_notified_of_a_lost_connection() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        assert (await receive())["type"] == "http.disconnect"

    world = World(7, limit_s=3600)

    async def main() -> None:
        server = HttpServer(world.network.host("localhost"), world.clock)
        address = await server.serve(app, "localhost", 80)
        peers = [await Peer.connect(world.network.host("client"), address) for _ in range(3)]
        for peer in peers:
            peer.send(GET)
        await asyncio.sleep(10)
        world.network.lose_connections("localhost")
        await asyncio.sleep(10)
        assert len(server) == 0

    world.run(main())


def test_the_app_is_notified_when_its_response_is_complete() -> None:
    told: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await answer(send, b"done" + await read_body(receive))
        told.append((await receive())["type"])

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(post(b"!"))
        assert (await peer.answer()).body == b"done!"
        peer.send(post(b"?"))
        assert (await peer.answer()).body == b"done?"

    in_worlds(test, app, seeds=range(1))
    assert told == ["http.disconnect"] * 2


def test_a_waiting_app_is_notified_when_its_response_is_complete() -> None:
    told: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)

        async def wait() -> None:
            told.append((await receive())["type"])

        waiting = asyncio.create_task(wait())
        await asyncio.sleep(1)
        await answer(send, b"done")
        await waiting

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        for _ in range(2):
            peer.send(GET)
            assert (await peer.answer()).body == b"done"

    in_worlds(test, app, seeds=range(1))
    assert told == ["http.disconnect"] * 2


def test_an_app_is_notified_at_once_of_a_refused_request() -> None:
    told: list[float] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] == "http.request":
            pass
        told.append(asyncio.get_running_loop().time())

    async def test(_server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(b"POST / HTTP/1.1\r\nHost: node\r\nTransfer-Encoding: chunked\r\n\r\n6\r\n123456\r\n")
        assert (await peer.answer()).status == 413
        # The connection is still there, and reads what may come.
        assert not peer.is_lost
        assert told.pop() <= asyncio.get_running_loop().time()

    in_worlds(test, app, HttpLimits(max_body_bytes=5))


def test_a_peer_that_leaves_within_its_body_ends_the_request() -> None:
    told: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "http.request":
            pass
        told.append(message["type"])

    async def test(server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(post(b"hello")[:-1])
        await asyncio.sleep(5)
        peer.connection.close()
        await asyncio.sleep(5)
        assert len(server) == 0

    in_worlds(test, app)
    assert told == ["http.disconnect"] * 5


def test_connections_beyond_the_limit_queue_until_there_is_room() -> None:
    async def test(server: HttpServer, connect: Connect) -> None:
        peers = [await connect() for _ in range(3)]
        for peer in peers:
            peer.send(GET)
            await peer.answer()
        late = await connect()
        late.send(GET)
        await asyncio.sleep(50)
        assert len(server) == 3
        assert late.heard == b""
        peers[0].connection.close()
        assert (await late.answer()).status == 200

    in_worlds(test, limits=HttpLimits(max_connections=3))


# Stopping


def test_a_stop_finishes_requests_in_flight_and_closes_idle_connections() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/slow":
            await asyncio.sleep(5)
        await answer(send, b"done")

    async def test(server: HttpServer, connect: Connect) -> None:
        idle, busy = await connect(), await connect()
        idle.send(GET)
        await idle.answer()
        busy.send(b"GET /slow HTTP/1.1\r\nHost: node\r\n\r\n", GET)
        await asyncio.sleep(3)
        began = asyncio.get_running_loop().time()
        stopping = asyncio.create_task(server.stop(grace_seconds=30))
        await idle.until_lost()
        answered = await busy.answer()
        assert (answered.body, answered.headers["connection"]) == (b"done", "close")
        await stopping
        assert 1 < asyncio.get_running_loop().time() - began < 10
        # The request behind it was not begun.
        await busy.until_lost()
        assert busy.heard == b""

    in_worlds(test, app)


def test_a_stop_cuts_requests_that_take_too_long() -> None:
    ended: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def test(server: HttpServer, connect: Connect) -> None:
        peer = await connect()
        peer.send(GET)
        await asyncio.sleep(2)
        began = asyncio.get_running_loop().time()
        await server.stop(grace_seconds=5)
        assert 4.9 < asyncio.get_running_loop().time() - began < 6
        await peer.until_lost()

    in_worlds(test, app)
    assert ended == ["cancelled"] * 5


def test_a_server_that_stops_listens_no_more() -> None:
    async def test(server: HttpServer, connect: Connect) -> None:
        await server.stop(grace_seconds=1)
        with pytest.raises(Exception, match="Connection refused"):
            await connect()

    in_worlds(test)


# Bad networks


def test_nothing_is_left_of_connections_that_break_at_any_point() -> None:
    async def test(server: HttpServer, connect: Connect) -> None:
        served = 0
        for number in range(40):
            peer = await connect()
            peer.send(post(bytes(2_000)), GET, post(bytes(1_000), b"Expect: 100-continue"), GET[:number])
            asking = asyncio.create_task(peer.until_lost())
            await asyncio.sleep(1)
            served += peer.heard.count(b"HTTP/1.1 200")
            peer.connection.abort()
            await asking
        await asyncio.sleep(200)
        assert len(server) == 0
        assert served > 20

    odds = NetworkOdds(split=0.7, slow=0.2, loss=0.01)
    in_worlds(test, echo, seeds=range(20), odds=odds)
