"""The client's side: pipelining, time limits, failures with a type."""

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.peers.channel import BadResponse, Channel, RequestTimedOut
from cordwood.net.serving import Answer, Reply
from cordwood.runtime.network import Address, CannotConnect, ConnectionLost, SocketOptions
from cordwood.runtime.sockets import SocketNetwork
from cordwood.wire.frames import decode_request, encode_response
from cordwood.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.metadata import MetadataRequest
from tests.net.net_support import frame, serving, until

Run = Callable[[Coroutine[Any, Any, None]], None]


async def open_channel(address: Address, timeout_s: float = 30.0, options: SocketOptions | None = None) -> Channel:
    return await Channel.open(
        SocketNetwork(), address.host, address.port, client_id="tests", timeout_s=timeout_s, options=options
    )


def broker(request: bytearray, connection: ConnectionInfo) -> Answer:
    header, body = decode_request(request)
    assert header.client_id == "tests"
    version = header.request_api_version
    if isinstance(body, ApiVersionsRequest):
        keys = [ApiVersion(api_key=18, min_version=0, max_version=4)]
        return [encode_response(ApiVersionsResponse(api_keys=keys), version, header.correlation_id)]
    raise AssertionError(f"no answer to {body}")


def test_requests_are_encoded_answered_and_decoded(run: Run) -> None:
    async def main() -> None:
        async with serving(broker) as (_, address):
            channel = await open_channel(address)
            response = await channel.request(ApiVersionsRequest(), version=3)
            assert [(key.api_key, key.max_version) for key in response.api_keys] == [(18, 4)]
            channel.close()

    run(main())


def test_many_requests_are_in_flight_at_once_and_each_gets_its_own_response(run: Run) -> None:
    async def main() -> None:
        waiting: list[tuple[int, Reply]] = []

        def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
            reply = Reply()
            waiting.append((struct.unpack_from(">hhi", request)[2], reply))
            return reply

        async with serving(handler) as (_, address):
            channel = await open_channel(address)
            tasks = [asyncio.ensure_future(channel.request(ApiVersionsRequest(), 3)) for _ in range(100)]
            await until(lambda: len(waiting) == 100)
            assert channel.in_flight == 100
            for correlation_id, reply in reversed(waiting):
                response = ApiVersionsResponse(throttle_time_ms=correlation_id)
                reply.answer([encode_response(response, 3, correlation_id)])
            responses = await asyncio.gather(*tasks)
            assert [response.throttle_time_ms for response in responses] == [number for number, _ in waiting]
            assert channel.in_flight == 0
            channel.close()

    run(main())


def test_a_request_without_response_leaves_the_order_alone(run: Run) -> None:
    seen = []

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        _, body = decode_request(request)
        seen.append(type(body))
        return None if isinstance(body, MetadataRequest) else broker(request, connection)

    async def main() -> None:
        async with serving(handler) as (_, address):
            channel = await open_channel(address)
            await channel.send_only(MetadataRequest(), 12)
            await channel.request(ApiVersionsRequest(), 3)
            assert seen == [MetadataRequest, ApiVersionsRequest]
            channel.close()

    run(main())


def test_a_request_without_response_in_time_fails_alone_and_its_late_response_is_dropped(run: Run) -> None:
    replies: list[Reply] = []

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        if replies:
            return broker(request, connection)
        replies.append(Reply())
        return replies[0]

    async def main() -> None:
        async with serving(handler) as (_, address):
            channel = await open_channel(address)
            with pytest.raises(RequestTimedOut, match=rf"no response from {address} within 0.01 s"):
                await channel.request(ApiVersionsRequest(), 3, timeout_s=0.01)
            second = asyncio.ensure_future(channel.request(ApiVersionsRequest(), 3))
            await until(lambda: channel.in_flight == 2 and bool(replies))
            replies[0].answer([encode_response(ApiVersionsResponse(throttle_time_ms=99), 3, 0)])
            assert (await second).throttle_time_ms == 0
            channel.close()

    run(main())


def test_requests_in_flight_fail_when_the_connection_is_lost(run: Run) -> None:
    async def main() -> None:
        async with serving(lambda request, connection: Reply()) as (server, address):
            channel = await open_channel(address)
            tasks = [asyncio.ensure_future(channel.request(ApiVersionsRequest(), 3)) for _ in range(3)]
            await until(lambda: [served.in_work for served in server] == [3])
            for served in server:
                served.abort()
            for failure in await asyncio.gather(*tasks, return_exceptions=True):
                assert isinstance(failure, ConnectionLost)
            with pytest.raises(ConnectionLost):
                await channel.request(ApiVersionsRequest(), 3)

    run(main())


@pytest.mark.parametrize("response", [frame(struct.pack(">i", 12345)), frame(b""), struct.pack(">i", -1)])
def test_a_peer_that_answers_something_else_is_left(run: Run, response: bytes) -> None:
    async def main() -> None:
        async with serving(lambda request, connection: [response]) as (server, address):
            channel = await open_channel(address)
            with pytest.raises(BadResponse):
                await channel.request(ApiVersionsRequest(), 3)
            assert isinstance(channel.lost_error, BadResponse)
            await until(lambda: len(server) == 0)

    run(main())


def test_a_server_that_does_not_read_holds_requests_back(run: Run) -> None:
    options = SocketOptions(send_buffer_bytes=16_384, receive_buffer_bytes=16_384)
    content = bytes(100_000)

    async def main() -> None:
        replies: list[tuple[bytes, Reply]] = []

        def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
            replies.append((bytes(request[:4]), Reply()))
            return replies[-1][1]

        async with serving(handler, options=options) as (_, address):
            channel = await open_channel(address, options=options)
            tasks = [
                asyncio.ensure_future(channel.exchange([frame(struct.pack(">i", number) + content)], number))
                for number in range(300)
            ]
            answered = 0
            while answered < 300:
                await until(lambda: len(replies) > answered)  # noqa: B023  # awaited within the loop
                assert channel._connection.unsent_bytes <= (1 << 20) + 2 * len(content)
                correlation_id, reply = replies[answered]
                reply.answer([frame(correlation_id)])
                answered += 1
            await asyncio.gather(*tasks)
            channel.close()

    run(main())


def test_opening_gives_up_in_time(run: Run) -> None:
    class Silent(SocketNetwork):
        async def connect(self, *_: Any, **__: Any) -> Any:
            await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(CannotConnect, match=r"cannot connect to example:9092: no connection within 0.01 s"):
            await Channel.open(Silent(), "example", 9092, timeout_s=0.01)

    run(main())
