"""Failures of `net` reach users of the client as `ClientError`s."""

import pytest

from cordwood.client.connection import client_error
from cordwood.client.errors import (
    AuthorizationFailed,
    BadAnswer,
    BadSetting,
    ClientError,
    NetworkFailed,
    UnsupportedByBroker,
)
from cordwood.net.peers.exceptions import (
    ConnectionFailed,
    Disconnected,
    MalformedResponse,
    PeerError,
    PeerRefused,
    Unencodable,
    Unreachable,
    UnsupportedByPeer,
)
from cordwood.wire.errors import ErrorCode


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionFailed("why"), NetworkFailed),
        (Unreachable("why"), NetworkFailed),
        (Disconnected("why"), NetworkFailed),
        (UnsupportedByPeer("why"), UnsupportedByBroker),
        (MalformedResponse("why"), BadAnswer),
        (Unencodable("why"), BadSetting),
    ],
)
def test_each_failure_of_a_peer_has_its_client_error(error: PeerError, expected: type[ClientError]) -> None:
    translated = client_error(error)
    assert type(translated) is expected
    assert str(translated) == "why"


def test_a_refusal_becomes_the_broker_error_of_its_code() -> None:
    translated = client_error(PeerRefused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert type(translated) is AuthorizationFailed
    assert translated.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_no_failure_is_without_a_client_error() -> None:
    kinds = [PeerError]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind not in (PeerError, PeerRefused):
            assert isinstance(client_error(kind("why")), ClientError)
