"""Bootstrap addresses as people write them."""

import pytest

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.errors import BadSetting
from cordwood.runtime.network import Address


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost:9092", [("localhost", 9092)]),
        ("localhost", [("localhost", 9092)]),
        ("a:1,b:2", [("a", 1), ("b", 2)]),
        (" a:1 , b ,", [("a", 1), ("b", 9092)]),
        ("[::1]:9093", [("::1", 9093)]),
        ("[::1]", [("::1", 9092)]),
        ("fe80::1", [("fe80::1", 9092)]),
        ("PLAINTEXT://a:1,SSL://[::1]:2", [("a", 1), ("::1", 2)]),
    ],
)
def test_an_address_is_host_and_port(text: str, expected: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == tuple(Address(host, port) for host, port in expected)


@pytest.mark.parametrize(
    "text", ["a:b", "a:0", "a:65536", ":9092", "a:", "[::1", "[::1]9092", "a:-1", "a:٣", "http://a:b"]
)
def test_invalid_addresses_are_named(text: str) -> None:
    with pytest.raises(BadSetting, match="expected host:port") as caught:
        parse_bootstrap(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("text", ["", " , "])
def test_no_address_at_all_is_refused(text: str) -> None:
    with pytest.raises(BadSetting, match="no bootstrap address"):
        parse_bootstrap(text)
