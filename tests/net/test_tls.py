"""TLS: the same frames, ranges read in pieces, certificates of both sides, files that will not do."""

import asyncio
import logging
import os
import ssl
import struct
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.limits import Limits
from cordwood.net.peers.channel import Channel
from cordwood.net.serving import Answer, Handler
from cordwood.runtime.disk import FileRange
from cordwood.runtime.files.local_disk import LocalDisk
from cordwood.runtime.network import Address, CannotConnect, ConnectionLost, SocketOptions
from cordwood.runtime.sockets import SocketNetwork
from cordwood.runtime.tls import ClientAuth, ClientTls, KeyPair, ServerTls, TlsError
from tests.net.certificates import Authority, authority
from tests.net.net_support import client_of, echo, frame, serving, until

Run = Callable[[Coroutine[Any, Any, None]], None]

SMALL_BUFFERS = SocketOptions(send_buffer_bytes=16_384, receive_buffer_bytes=16_384)


@pytest.fixture
def ours(tmp_path: Path) -> Authority:
    return authority(tmp_path, "our-authority")


@pytest.fixture
def foreign(tmp_path: Path) -> Authority:
    return authority(tmp_path, "foreign-authority")


async def channel_to(address: Address, tls: ClientTls, host: str = "localhost") -> Channel:
    return await Channel.open(SocketNetwork(), host, address.port, tls=tls, options=SMALL_BUFFERS)


def request(correlation_id: int, content: bytes = b"") -> list[Any]:
    return [frame(struct.pack(">i", correlation_id) + content)]


def answering(*parts: Any) -> Handler:
    """The correlation id of the request, then these parts."""

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        return [struct.pack(">i", 4 + sum(map(len, parts))), request[:4], *parts]

    return handler


def test_requests_of_all_sizes_are_answered(run: Run, ours: Authority) -> None:
    async def main() -> None:
        async with serving(echo, tls=ServerTls(ours.issue("node"))) as (server, address):
            channel = await channel_to(address, ClientTls(ours.ca_file))
            sizes = [0, 1, 100, 16_384, 70_000, 3_000_000, 5]
            contents = [os.urandom(size) for size in sizes]
            answers = await asyncio.gather(
                *(channel.exchange(request(number, content), number) for number, content in enumerate(contents))
            )
            assert [bytes(answer[4:]) for answer in answers] == contents
            channel.close()
            await until(lambda: len(server) == 0)

    run(main())


def test_ranges_are_read_in_pieces_and_arrive_whole(run: Run, ours: Authority, tmp_path: Path) -> None:
    file = LocalDisk(str(tmp_path)).create("segment")
    file.append(os.urandom(3_000_000))
    longest_read = 0
    read = type(file).read

    class Watched:
        path = "segment"

        def read(self, position: int, length: int) -> bytes:
            nonlocal longest_read
            longest_read = max(longest_read, length)
            return read(file, position, length)

    part: Any = FileRange(Watched(), 100, 2_500_000)  # type: ignore[arg-type]  # all that TLS uses of a file

    async def main() -> None:
        handler = answering(b"start", part, b"end")
        async with serving(handler, tls=ServerTls(ours.issue("node")), options=SMALL_BUFFERS) as (_, address):
            channel = await channel_to(address, ClientTls(ours.ca_file))
            answers = await asyncio.gather(*(channel.exchange(request(number), number) for number in range(3)))
            for answer in answers:
                assert answer[4:] == b"start" + file.read(100, 2_500_000) + b"end"
            channel.abort()
        assert 0 < longest_read <= 65_536

    run(main())


def test_a_range_is_not_read_ahead_of_a_client_that_does_not_read(run: Run, ours: Authority, tmp_path: Path) -> None:
    file = LocalDisk(str(tmp_path)).create("segment")
    file.append(bytes(5_000_000))
    read_bytes = 0

    class Watched:
        path = "segment"

        def read(self, position: int, length: int) -> bytes:
            nonlocal read_bytes
            read_bytes += length
            return file.read(position, length)

    part: Any = FileRange(Watched(), 0, 5_000_000)  # type: ignore[arg-type]  # all that TLS uses of a file

    async def main() -> None:
        tls = ServerTls(ours.issue("node"))
        async with serving(answering(part), tls=tls, options=SMALL_BUFFERS) as (server, address):
            channel = await channel_to(address, ClientTls(ours.ca_file))
            channel._connection.pause_reading()
            answer = asyncio.ensure_future(channel.exchange(request(1), 1))
            await until(lambda: any(served.held_bytes > 0 for served in server))
            for _ in range(200):
                await asyncio.sleep(0)
            # Ciphertext ahead of the socket, a piece past it, and what the sockets hold.
            assert read_bytes <= 262_144 + 65_536 + 200_000
            channel._connection.resume_reading()
            assert len(await answer) == 4 + 5_000_000
            channel.abort()

    run(main())


def test_a_file_that_was_cut_ends_the_connection(run: Run, ours: Authority, tmp_path: Path) -> None:
    file = LocalDisk(str(tmp_path)).create("segment")
    file.append(bytes(1_000))

    async def main() -> None:
        handler = answering(FileRange(file, 0, 2_000))
        async with serving(handler, tls=ServerTls(ours.issue("node"))) as (server, address):
            channel = await channel_to(address, ClientTls(ours.ca_file))
            with pytest.raises(ConnectionLost):
                await channel.exchange(request(1), 1)
            await until(lambda: len(server) == 0)

    run(main())


def test_a_client_that_does_not_read_holds_a_bounded_piece_of_ciphertext(run: Run, ours: Authority) -> None:
    """And a server that is full reads no more of its requests, decrypted or not."""
    limit = 200_000
    handled = []

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        handled.append(len(request))
        return [frame(bytes(request[:4]) + bytes(20_000))]

    async def main() -> None:
        async with serving(
            handler, Limits(max_held_bytes=limit), tls=ServerTls(ours.issue("node")), options=SMALL_BUFFERS
        ) as (server, address):
            channel = await channel_to(address, ClientTls(ours.ca_file))
            channel._connection.pause_reading()
            answers = [
                asyncio.ensure_future(channel.exchange(request(number, bytes(100)), number)) for number in range(2_000)
            ]
            # Once it has paused, the system may take a little more of what it holds.
            await until(lambda: any(served._paused for served in server))
            (served,) = server
            assert served.buffered_bytes < limit + 262_144 + 3 * 65_536
            assert len(handled) < 2_000
            channel._connection.resume_reading()
            for answer in answers:
                assert len(await answer) == 20_004
            channel.abort()

    run(main())


@pytest.mark.parametrize("auth", [ClientAuth.REQUESTED, ClientAuth.REQUIRED])
def test_a_handler_sees_the_verified_certificate_of_its_client(run: Run, ours: Authority, auth: ClientAuth) -> None:
    seen: list[Any] = []

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        seen.append(connection.peer_certificate)
        return echo(request, connection)

    async def main() -> None:
        tls = ServerTls(ours.issue("node"), auth, ours.ca_file)
        async with serving(handler, tls=tls) as (_, address):
            channel = await channel_to(address, ClientTls(ours.ca_file, ours.issue("alice")))
            await channel.exchange(request(1), 1)
            channel.abort()
        assert seen[0]["subject"] == ((("commonName", "alice"),),)

    run(main())


def test_a_certificate_that_is_only_requested_may_be_missing(run: Run, ours: Authority) -> None:
    async def main() -> None:
        tls = ServerTls(ours.issue("node"), ClientAuth.REQUESTED, ours.ca_file)
        async with serving(echo, tls=tls) as (_, address):
            channel = await channel_to(address, ClientTls(ours.ca_file))
            await channel.exchange(request(1), 1)
            channel.abort()

    run(main())


@pytest.mark.parametrize("shown", ["none", "foreign"])
def test_a_client_without_a_certificate_of_ours_is_refused_where_one_is_required(
    run: Run, ours: Authority, foreign: Authority, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    handled = []

    def handler(request: bytearray, connection: ConnectionInfo) -> Answer:
        handled.append(request)
        return echo(request, connection)

    async def connect_and_ask(address: Address, tls: ClientTls) -> None:
        """With TLS 1.3 a client is done before the server has looked at its certificate."""
        channel = await channel_to(address, tls)
        await channel.exchange(request(1), 1)

    async def main() -> None:
        tls = ServerTls(ours.issue("node"), ClientAuth.REQUIRED, ours.ca_file)
        keys = foreign.issue("mallory") if shown == "foreign" else None
        async with serving(handler, tls=tls) as (server, address):
            with pytest.raises((CannotConnect, ConnectionLost)):
                await connect_and_ask(address, ClientTls(ours.ca_file, keys))
            await until(lambda: len(server) == 0)
        assert handled == []

    with caplog.at_level(logging.INFO):
        run(main())
    (message,) = [text for text in caplog.messages if "handshake" in text]
    assert "TLS handshake with 127.0.0.1:" in message


def test_a_client_refuses_a_server_of_a_foreign_authority_or_another_name(
    run: Run, ours: Authority, foreign: Authority
) -> None:
    # Every address of 127/8 is this machine's, but not in the certificate.
    async def listening_everywhere() -> None:
        async with serving(echo, host="0.0.0.0", tls=ServerTls(foreign.issue("node"))) as (_, address):
            with pytest.raises(CannotConnect, match="IP address mismatch"):
                await channel_to(address, ClientTls(foreign.ca_file), host="127.0.0.2")
            channel = await channel_to(address, ClientTls(foreign.ca_file, check_hostname=False), host="127.0.0.2")
            await channel.exchange(request(1), 1)
            channel.abort()

    async def of_a_foreign_authority() -> None:
        async with serving(echo, tls=ServerTls(foreign.issue("node"))) as (_, address):
            with pytest.raises(CannotConnect, match="the certificate cannot be verified"):
                await channel_to(address, ClientTls(ours.ca_file))

    run(of_a_foreign_authority())
    run(listening_everywhere())


def test_plain_bytes_at_a_tls_listener_close_only_their_connection(run: Run, ours: Authority) -> None:
    async def main() -> None:
        async with serving(echo, tls=ServerTls(ours.issue("node"))) as (server, address):
            async with client_of(address) as client:
                await client.send(frame(b"this is no TLS at all") * 20)
                while not await client.is_closed():
                    pass
            await until(lambda: len(server) == 0)
            channel = await channel_to(address, ClientTls(ours.ca_file))
            await channel.exchange(request(1), 1)
            channel.abort()

    run(main())


def test_a_handshake_that_is_never_finished_ends_by_idleness(run: Run, ours: Authority) -> None:
    async def main() -> None:
        async with (
            serving(echo, Limits(idle_ms=100), tls=ServerTls(ours.issue("node"))) as (server, address),
            client_of(address) as client,
        ):
            await client.send(b"\x16\x03\x01")
            assert await client.is_closed()
            assert server.counts.closed_idle == 1

    run(main())


def test_a_stop_sends_the_rest_of_a_response_and_close_notify(run: Run, ours: Authority) -> None:
    async def main() -> None:
        handler = answering(bytes(3_000_000))
        async with serving(handler, tls=ServerTls(ours.issue("node")), options=SMALL_BUFFERS) as (server, address):
            channel = await channel_to(address, ClientTls(ours.ca_file))
            answer = asyncio.ensure_future(channel.exchange(request(1), 1))
            await until(lambda: any(served.held_bytes > 0 for served in server))
            await server.stop(grace_seconds=50)
            assert len(await answer) == 4 + 3_000_000
            await until(lambda: channel.lost_error is not None)

    run(main())


# ---- files


def test_a_key_and_its_certificate_may_share_a_file_and_the_key_may_have_a_password(
    ours: Authority, tmp_path: Path
) -> None:
    keys = ours.issue("node", password="secret")
    assert keys.key_file is not None
    both = tmp_path / "both.pem"
    both.write_text(Path(keys.key_file).read_text() + Path(keys.certificate_file).read_text())
    ServerTls(KeyPair(str(both), key_password="secret"))


def test_pem_text_may_replace_files(ours: Authority) -> None:
    keys = ours.issue("node", password="secret")
    assert keys.key_file is not None
    texts = KeyPair(Path(keys.certificate_file).read_text(), Path(keys.key_file).read_text(), "secret")
    context = ServerTls(texts, ClientAuth.REQUIRED, Path(ours.ca_file).read_text()).context
    assert [authority["subject"] for authority in context.get_ca_certs()] == [((("commonName", "our-authority"),),)]


def test_only_the_enabled_protocols_are_spoken(ours: Authority) -> None:
    keys = ours.issue("node")
    context = ServerTls(keys, protocols=["TLSv1.2"]).context
    assert (context.minimum_version, context.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2)
    with pytest.raises(TlsError, match=r"TLSv1.1 is not supported; expected one of TLSv1.2, TLSv1.3"):
        ServerTls(keys, protocols=["TLSv1.1", "TLSv1.2"])


TLS_13 = "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:TLS_AES_128_GCM_SHA256"


@pytest.mark.parametrize(
    ("suites", "openssl"),
    [
        ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_256_CBC_SHA", "AES256-SHA"),
        ("ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
    ],
)
def test_cipher_suites_have_javas_names_or_openssls(ours: Authority, suites: str, openssl: str) -> None:
    context = ServerTls(ours.issue("node"), ciphers=suites).context
    older = [suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"]
    assert older == [openssl]


@pytest.mark.parametrize(
    ("suites", "versions"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ("TLSv1_2", "TLSv1_2")),
        (TLS_13, ("TLSv1_3", "TLSv1_3")),
        (f"{TLS_13}:TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", ("TLSv1_2", "TLSv1_3")),
    ],
)
def test_a_version_of_tls_without_a_chosen_suite_is_not_spoken(
    ours: Authority, suites: str, versions: tuple[str, str]
) -> None:
    context = ServerTls(ours.issue("node"), ciphers=suites, protocols=["TLSv1.2", "TLSv1.3"]).context
    assert (context.minimum_version.name, context.maximum_version.name) == versions


def test_a_choice_of_cipher_suites_that_cannot_be_kept_is_refused(ours: Authority) -> None:
    keys = ours.issue("node")
    with pytest.raises(TlsError, match=r"TLS_CHACHA20_POLY1305_SHA256 cannot be disabled"):
        ServerTls(keys, ciphers="TLS_AES_256_GCM_SHA384")
    with pytest.raises(TlsError, match=r"none of .* works with ssl\.enabled\.protocols"):
        ServerTls(keys, ciphers=TLS_13, protocols=["TLSv1.2"])
    with pytest.raises(TlsError, match=r"none of .* works with ssl\.enabled\.protocols"):
        ServerTls(keys, ciphers="TLS_RSA_WITH_AES_256_CBC_SHA", protocols=["TLSv1.3"])


def test_files_that_will_not_do_are_refused_with_their_name_and_the_reason(
    ours: Authority, foreign: Authority, tmp_path: Path
) -> None:
    keys, others = ours.issue("node"), foreign.issue("other")
    locked = ours.issue("locked", password="secret")
    empty = tmp_path / "empty.pem"
    empty.write_text("nothing")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    cases: list[tuple[Callable[[], object], str]] = [
        (lambda: ServerTls(KeyPair("/nowhere.pem")), r"cannot read the certificate file /nowhere.pem: No such file"),
        (lambda: ServerTls(KeyPair(str(empty))), r"there is no certificate in PEM form in .*empty.pem"),
        (lambda: ServerTls(KeyPair(keys.certificate_file)), r"there is no private key in PEM form in .*node.crt"),
        (
            lambda: ServerTls(KeyPair(keys.certificate_file, others.key_file)),
            r"the key in .*other.key does not match the certificate in .*node.crt",
        ),
        (
            lambda: ServerTls(KeyPair(locked.certificate_file, locked.key_file)),
            r"the private key in .*locked.key is encrypted, but no password is configured",
        ),
        (
            lambda: ServerTls(KeyPair(locked.certificate_file, locked.key_file, "wrong")),
            r"cannot use the certificate in .*locked.crt with the key in .*locked.key: .*is the password right\?",
        ),
        (lambda: ServerTls(keys, ClientAuth.REQUIRED), r"client certificates are required, but no CA file"),
        (lambda: ServerTls(keys, ciphers="ROT13"), r"no known cipher suite in 'ROT13'"),
        (lambda: ClientTls(str(broken)), r"cannot use the trusted certificates in .*broken.pem"),
        (lambda: ClientTls("/nowhere.pem"), r"cannot read the trusted certificate file /nowhere.pem"),
    ]
    for make, message in cases:
        with pytest.raises(TlsError, match=message):
            make()
