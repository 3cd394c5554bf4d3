"""The versions of requests that a peer and we have in common; sans-IO.

A connection opens with our newest ApiVersions. A peer that does not have that version answers in version 0 with
UNSUPPORTED_VERSION and (Kafka 2.4+) the versions it has, and is asked again in one of those.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any

from cordwood.net.peers.exceptions import MalformedResponse, PeerRefused, UnsupportedByPeer
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.frames import decode_response
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.primitives import Buffer
from cordwood.wire.schema import Request, Versions

# The response's header is always version 0: the correlation id. The error code comes first in every version.
_START = Struct(">ih")


class PeerVersions:
    """The versions that a peer reported."""

    whose = "the peer"

    def __init__(self, response: ApiVersionsResponse) -> None:
        self._best: dict[tuple[type[Request[Any]], int, int | None], int] = {}
        self._ranges = {api.api_key: Versions(api.min_version, api.max_version) for api in response.api_keys}
        self.supported_features = {
            feature.name: Versions(feature.min_version, feature.max_version) for feature in response.supported_features
        }
        self.finalized_features = {feature.name: feature.max_version_level for feature in response.finalized_features}
        self.finalized_features_epoch = response.finalized_features_epoch

    def best(self, request: type[Request[Any]], *, at_least: int = 0, at_most: int | None = None) -> int:
        """The newest version that both have. Raises `UnsupportedByPeer`.

        An unstable version is used only if `at_least` asks for it.
        """
        asked = (request, at_least, at_most)
        best = self._best.get(asked)
        if best is None:
            best = self._best[asked] = self._find_best(request, at_least, at_most)
        return best

    def _find_best(self, request: type[Request[Any]], at_least: int, at_most: int | None) -> int:
        ours = request.stable_versions if at_least <= request.stable_versions.high else request.versions
        theirs = self._ranges.get(request.api_key)
        name = request.__name__.removesuffix("Request")
        if theirs is None:
            raise UnsupportedByPeer(f"{self.whose} has no {name}")
        wanted = Versions(max(ours.low, at_least), ours.high if at_most is None else min(ours.high, at_most))
        highest = min(wanted.high, theirs.high)
        if highest < max(wanted.low, theirs.low):
            raise UnsupportedByPeer(f"{self.whose} has {name} in versions {theirs}, and {wanted} is needed")
        return highest

    def has(self, request: type[Request[Any]]) -> bool:
        theirs = self._ranges.get(request.api_key)
        return theirs is not None and max(theirs.low, request.stable_versions.low) <= min(
            theirs.high, request.stable_versions.high
        )


def read_api_versions(frame: Buffer, version: int) -> ApiVersionsResponse | int:
    """Decodes the response to ApiVersions in `version`: the peer's versions, or the version in which to ask again.

    Raises `PeerRefused` or `MalformedResponse`.
    """
    refused = len(frame) >= _START.size and _START.unpack_from(frame)[1] == ErrorCode.UNSUPPORTED_VERSION
    try:
        _, response = decode_response(ApiVersionsResponse, 0 if refused else version, frame)
    except DecodeError as error:
        raise MalformedResponse(f"the answer to ApiVersions does not read: {error}") from error
    if not refused:
        if response.error_code != ErrorCode.NONE:
            raise PeerRefused(response.error_code)
        return response
    again = _highest(api.max_version for api in response.api_keys if api.api_key == ApiVersionsRequest.api_key)
    if again >= version:
        raise MalformedResponse(f"the peer refuses ApiVersions in version {version} and says that it has {again}")
    return again


def _highest(max_versions: Iterable[int]) -> int:
    """Brokers before 2.4 do not say which they have; all have version 0."""
    return max(max_versions, default=0)
