"""HTTP without a network: bytes to events, and responses to bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cordwood.net.http.limits import HttpLimits
from cordwood.net.http.protocol import BadHttp, Event, HttpProtocol, RequestEnd, RequestHead

POST = (
    b"POST /a%20b/%C3%BC?x=%20y HTTP/1.1\r\nHost: node\r\nX-Thing:  some value \r\n"
    b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n"
)


def joined(events: list[Event]) -> list[Event]:
    """The pieces of a body as one."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, bytes) and found and isinstance(found[-1], bytes):
            found[-1] += event
        else:
            found.append(event)
    return found


def test_a_request_is_taken_apart() -> None:
    head, body, end = joined(HttpProtocol(HttpLimits()).receive(POST))
    assert head == RequestHead(
        "POST",
        "/a b/ü",
        b"/a%20b/%C3%BC",
        b"x=%20y",
        [(b"host", b"node"), (b"x-thing", b"some value"), (b"transfer-encoding", b"chunked")],
        "1.1",
    )
    assert body == b"hello, world"
    assert end is RequestEnd.END


@given(cuts=st.lists(st.integers(0, len(POST))))
def test_it_does_not_matter_where_a_request_is_cut(cuts: list[int]) -> None:
    protocol = HttpProtocol(HttpLimits())
    ends = sorted({*cuts, len(POST)})
    events: list[Event] = []
    for start, end in zip([0, *ends], ends, strict=False):
        if start < end:
            events += protocol.receive(POST[start:end])
    assert joined(events) == joined(HttpProtocol(HttpLimits()).receive(POST))


@pytest.mark.parametrize("size", [1_000, 70_000])
@pytest.mark.parametrize("piece", [1, 999, 1 << 20])
def test_how_long_a_head_may_be_does_not_depend_on_how_it_comes(size: int, piece: int) -> None:
    data = b"GET / HTTP/1.1\r\nHost: node\r\nX: " + b"x" * size + b"\r\n\r\n"
    protocol = HttpProtocol(HttpLimits(max_head_bytes=1_000))
    events = [event for at in range(0, len(data), piece) for event in protocol.receive(data[at : at + piece])]
    assert [event.status for event in events if isinstance(event, BadHttp)] == [431]
    assert len(events) == 1


@pytest.mark.parametrize(
    ("method", "target", "path", "query"),
    [
        ("GET", "/", "/", b""),
        ("GET", "/a?b?c", "/a", b"b?c"),
        ("GET", "//a/../b", "//a/../b", b""),
        ("GET", "http://node:80/a/b?c", "/a/b", b"c"),
        ("GET", "HTTPS://node", "/", b""),
        ("GET", "http://node?c/d", "/", b"c/d"),
        ("OPTIONS", "*", "*", b""),
    ],
)
def test_targets(method: str, target: str, path: str, query: bytes) -> None:
    events = HttpProtocol(HttpLimits()).receive(f"{method} {target} HTTP/1.1\r\nHost: node\r\n\r\n".encode())
    head = events[0]
    assert isinstance(head, RequestHead)
    assert (head.path, head.query) == (path, query)


def test_nothing_is_read_after_a_refusal() -> None:
    protocol = HttpProtocol(HttpLimits(max_body_bytes=5))
    (refusal,) = protocol.receive(b"POST / HTTP/1.1\r\nHost: node\r\nContent-Length: 6\r\n\r\nGET / ")
    assert isinstance(refusal, BadHttp)
    assert refusal.status == 413
    assert "at most 5 bytes" in refusal.reason
    assert protocol.receive(b"HTTP/1.1\r\n\r\n") == []


def test_a_complete_body_gets_its_length_and_others_are_chunked() -> None:
    def respond(body: bytes, *, more: bool) -> bytes:
        protocol = HttpProtocol(HttpLimits())
        protocol.receive(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")
        return protocol.respond(200, [], body, more=more)

    assert respond(b"hello", more=False) == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    assert respond(b"hello", more=True) == b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_a_body_have_none(status: int) -> None:
    protocol = HttpProtocol(HttpLimits())
    protocol.receive(b"GET / HTTP/1.1\r\nHost: node\r\n\r\n")
    out = protocol.respond(status, [], b"ignored", more=False)
    assert out.endswith(b"\r\n\r\n")
    assert b"content-length" not in out
    assert protocol.can_be_reused
