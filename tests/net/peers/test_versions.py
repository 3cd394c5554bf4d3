"""Versions that both sides know; the answer of a broker that does not have our ApiVersions."""

import pytest

from cordwood.net.peers.exceptions import MalformedResponse, PeerRefused, UnsupportedByPeer
from cordwood.net.peers.versions import PeerVersions, read_api_versions
from cordwood.wire.errors import ErrorCode
from cordwood.wire.frames import encode_response
from cordwood.wire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.messages.fetch import FetchRequest
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.metadata import MetadataRequest

NEWEST = ApiVersionsRequest.stable_versions.high


def versions_of(*ranges: tuple[int, int, int]) -> PeerVersions:
    return PeerVersions(
        ApiVersionsResponse(
            api_keys=[ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in ranges]
        )
    )


def answer(response: ApiVersionsResponse, version: int) -> bytes:
    return encode_response(response, version, correlation_id=1)[4:]


def test_the_newest_common_version_is_used() -> None:
    assert versions_of((MetadataRequest.api_key, 0, 9)).best(MetadataRequest) == 9
    assert versions_of((MetadataRequest.api_key, 0, 99)).best(MetadataRequest) == MetadataRequest.versions.high


def test_a_caller_can_bound_the_version() -> None:
    broker = versions_of((FetchRequest.api_key, 4, 17))
    assert broker.best(FetchRequest, at_most=12) == 12
    with pytest.raises(UnsupportedByPeer, match="4-17, and 18 is needed"):
        broker.best(FetchRequest, at_least=18)


def test_an_unstable_version_is_not_used() -> None:
    stable = InitProducerIdRequest.versions.high - 1
    assert versions_of((InitProducerIdRequest.api_key, 0, 99)).best(InitProducerIdRequest) == stable


def test_a_missing_common_version_is_reported_with_both_ranges() -> None:
    with pytest.raises(UnsupportedByPeer, match="Fetch in versions 0-3, and 4-18 is needed"):
        versions_of((FetchRequest.api_key, 0, 3)).best(FetchRequest)


def test_an_api_that_the_broker_lacks_is_reported() -> None:
    broker = versions_of()
    assert not broker.has(FetchRequest)
    with pytest.raises(UnsupportedByPeer, match="no Fetch"):
        broker.best(FetchRequest)


def test_a_response_in_the_clients_version_has_the_brokers_versions() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersion(api_key=MetadataRequest.api_key, min_version=0, max_version=5)])
    read = read_api_versions(answer(response, NEWEST), NEWEST)
    assert isinstance(read, ApiVersionsResponse)
    assert PeerVersions(read).best(MetadataRequest) == 5


def test_a_refusal_in_version_0_says_in_which_version_to_ask_again() -> None:
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=ApiVersionsRequest.api_key, min_version=0, max_version=2)],
    )
    assert read_api_versions(answer(response, 0), NEWEST) == 2


def test_a_refusal_without_versions_leads_to_version_0() -> None:
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    assert read_api_versions(answer(response, 0), NEWEST) == 0


def test_a_broker_that_refuses_an_advertised_version_is_not_asked_forever() -> None:
    response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    with pytest.raises(MalformedResponse):
        read_api_versions(answer(response, 0), 0)


def test_another_error_is_raised() -> None:
    response = ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    with pytest.raises(PeerRefused, match="CLUSTER_AUTHORIZATION_FAILED"):
        read_api_versions(answer(response, NEWEST), NEWEST)


@pytest.mark.parametrize("frame", [b"", b"\0\0\0\1", b"HTTP/1.1 400 Bad Request"])
def test_an_invalid_response_is_reported(frame: bytes) -> None:
    with pytest.raises(MalformedResponse, match="does not read"):
        read_api_versions(frame, NEWEST)
