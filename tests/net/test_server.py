"""The server: order and back-pressure."""

import asyncio
from typing import Any

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.framing import SCRATCH_BYTES
from cordwood.net.limits import Limits
from cordwood.net.serving import Answer, Reply
from cordwood.runtime.network import Part
from tests.net.net_support import client_of, echo, frame, serving, until
from tests.net.parked import SMALL_BUFFERS, Parked, Run

# ---- order


def test_responses_keep_the_order_of_the_requests_whatever_order_they_are_ready_in(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        async with serving(parked) as (_, address), client_of(address) as client:
            await client.send(b"".join(map(frame, [b"1", b"2", b"now 3", b"4", b"now 5"])))
            await until(lambda: len(parked.replies) == 3)
            for request in (b"4", b"2", b"1"):
                parked.answer(request)
            assert [await client.receive_frame() for _ in range(5)] == [b"1", b"2", b"now 3", b"4", b"now 5"]

    run(main())


def test_the_four_kinds_of_answer_mix_on_one_connection(run: Run) -> None:
    async def later(request: bytes) -> list[Part] | None:
        await asyncio.sleep(0)
        return [frame(request)] if b"silent" not in request else None

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        kind = bytes(request).split()[0]
        if kind == b"none":
            return None
        if kind == b"coroutine":
            return later(bytes(request))
        if kind == b"reply":
            reply = Reply()
            reply.answer([frame(bytes(request))])
            return reply
        return [frame(bytes(request))]

    kinds = [b"list", b"none", b"coroutine", b"reply", b"list", b"coroutine silent", b"none", b"list", b"coroutine"]
    requests = [b"%s %d" % (kind, number) for number, kind in enumerate(kinds * 300)]

    async def main() -> None:
        async with serving(handler) as (_, address), client_of(address) as client:
            sending = asyncio.ensure_future(client.send(b"".join(map(frame, requests))))
            for request in requests:
                if not (request.startswith(b"none") or b"silent" in request):
                    assert await client.receive_frame() == request
            await sending

    run(main())


def test_requests_behind_one_that_holds_are_begun_when_it_is_answered(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        async with serving(parked) as (_, address), client_of(address) as client, client_of(address) as other:
            await client.send(b"".join(map(frame, [b"1", b"hold 2", b"3", b"now 4"])))
            await until(lambda: len(parked.replies) == 2)
            # Of other connections they are.
            await other.send(frame(b"now"))
            assert await other.receive_frame() == b"now"
            assert list(parked.replies) == [b"1", b"hold 2"]
            parked.answer(b"hold 2")
            await until(lambda: b"3" in parked.replies)
            for request in (b"1", b"3"):
                parked.answer(request)
            assert [await client.receive_frame() for _ in range(4)] == [b"1", b"hold 2", b"3", b"now 4"]

    run(main())


def test_an_answer_at_once_makes_no_task(run: Run) -> None:
    async def main() -> None:
        async with serving(echo) as (_, address), client_of(address) as client:
            loop = asyncio.get_running_loop()
            made = []

            def count(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
                made.append(coroutine)
                return asyncio.Task(coroutine, loop=loop, **options)

            loop.set_task_factory(count)
            await client.send(frame(b"x") * 100)
            assert [await client.receive_frame() for _ in range(100)] == [b"x"] * 100
            loop.set_task_factory(None)
            assert made == []

    run(main())


# ---- back-pressure


def test_reading_pauses_while_too_many_requests_are_in_progress(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        limits = Limits(max_requests_in_work=10)
        requests = [b"%d" % number for number in range(100)]
        async with serving(parked, limits) as (server, address), client_of(address) as client:
            await client.send(b"".join(map(frame, requests)))
            await until(lambda: len(parked.replies) == 10)
            (served,) = server
            for request in requests:
                assert served.in_work <= 10
                await until(lambda request=request: request in parked.replies)  # type: ignore[misc]
                assert len(parked.replies) <= 10
                parked.answer(request)
                assert await client.receive_frame() == request

    run(main())


def test_one_request_at_a_time_is_possible(run: Run) -> None:
    async def main() -> None:
        requests = [b"%d" % number for number in range(5_000)]

        async def handler(request: bytearray) -> list[Part]:
            return [frame(bytes(request))]

        async with (
            serving(lambda request, _: handler(request), Limits(max_requests_in_work=1)) as (_, address),
            client_of(address) as client,
        ):
            sending = asyncio.ensure_future(client.send(b"".join(map(frame, requests))))
            assert [await client.receive_frame() for _ in requests] == requests
            await sending

    run(main())


def test_a_client_that_does_not_read_never_grows_memory(run: Run) -> None:
    limit = 200_000
    response = bytes(20_000)
    handled = []

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        handled.append(len(request))
        return [frame(response)]

    async def main() -> None:
        limits = Limits(max_held_bytes=limit)
        requests = 5_000
        most = 0
        async with (
            serving(handler, limits, options=SMALL_BUFFERS) as (server, address),
            client_of(address, 16_384) as client,
        ):
            sending = asyncio.ensure_future(client.send(frame(bytes(100)) * requests))
            await until(lambda: len(server) == 1)
            (served,) = server
            await until(lambda: served._full)
            began = len(handled)
            # It stays so: nothing more is begun, however often the loop turns.
            for _ in range(200):
                await asyncio.sleep(0)
            assert len(handled) == began
            for _ in range(requests):
                # The size of one read (the scratch), the limit, and responses collected past it.
                most = max(most, served.buffered_bytes)
                assert await client.receive_frame() == response
            await sending
        assert most < limit + SCRATCH_BYTES + 65_536 + 2 * len(response)
        assert len(handled) == requests

    run(main())


def test_requests_in_work_count_as_memory_too(run: Run) -> None:
    async def main() -> None:
        parked = Parked()
        requests = [b"%d" % number + bytes(100_000) for number in range(20)]
        async with serving(parked, Limits(max_held_bytes=500_000)) as (server, address), client_of(address) as client:
            sending = asyncio.ensure_future(client.send(b"".join(map(frame, requests))))
            await until(lambda: len(parked.replies) == 5)
            (served,) = server
            assert served.buffered_bytes < 500_000 + 100_000 + 2 * 131_072
            for request in requests:
                await until(lambda request=request: request in parked.replies)  # type: ignore[misc]
                assert served.in_work <= 5
                parked.answer(request)
                assert await client.receive_frame() == request
            await sending

    run(main())
