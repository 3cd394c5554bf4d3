"""Which version of a request a broker and we both know; sans-IO.

A client opens with its own newest ApiVersions. A broker that does not have that version answers in version 0 with
UNSUPPORTED_VERSION and (Kafka 2.4+) the versions it has, and the client asks again in one of those.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Any

from cordwood.client.errors import BadAnswer, BrokerError, UnsupportedByBroker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.frames import decode_response
from cordwood.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from cordwood.wire.primitives import Buffer
from cordwood.wire.schema import Request, Versions

# The response's header is always version 0: the correlation id. The error code stands first in every version.
_START = Struct(">ih")


class BrokerVersions:
    """What one broker said it has."""

    def __init__(self, response: ApiVersionsResponse) -> None:
        self._best: dict[tuple[type[Request[Any]], int, int | None], int] = {}
        self._ranges = {api.api_key: Versions(api.min_version, api.max_version) for api in response.api_keys}
        self.supported_features = {
            feature.name: Versions(feature.min_version, feature.max_version) for feature in response.supported_features
        }
        self.finalized_features = {feature.name: feature.max_version_level for feature in response.finalized_features}
        self.finalized_features_epoch = response.finalized_features_epoch

    def best(self, request: type[Request[Any]], *, at_least: int = 0, at_most: int | None = None) -> int:
        """The newest version that both have. Raises `UnsupportedByBroker`.

        One that is not stable yet is used where it is asked for, by `at_least`.
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
            raise UnsupportedByBroker(f"the broker has no {name}")
        wanted = Versions(max(ours.low, at_least), ours.high if at_most is None else min(ours.high, at_most))
        highest = min(wanted.high, theirs.high)
        if highest < max(wanted.low, theirs.low):
            raise UnsupportedByBroker(f"the broker has {name} in versions {theirs}, and {wanted} is needed")
        return highest

    def has(self, request: type[Request[Any]]) -> bool:
        theirs = self._ranges.get(request.api_key)
        return theirs is not None and max(theirs.low, request.stable_versions.low) <= min(
            theirs.high, request.stable_versions.high
        )


def read_api_versions(frame: Buffer, version: int) -> BrokerVersions | int:
    """A broker's answer to ApiVersions in `version`: what it has, or the version in which to ask again.

    Raises `BrokerError` or `BadAnswer`.
    """
    refused = len(frame) >= _START.size and _START.unpack_from(frame)[1] == ErrorCode.UNSUPPORTED_VERSION
    try:
        _, response = decode_response(ApiVersionsResponse, 0 if refused else version, frame)
    except DecodeError as error:
        raise BadAnswer(f"the answer to ApiVersions does not read: {error}") from error
    if not refused:
        if response.error_code != ErrorCode.NONE:
            raise BrokerError(response.error_code)
        return BrokerVersions(response)
    again = _highest(api.max_version for api in response.api_keys if api.api_key == ApiVersionsRequest.api_key)
    if again >= version:
        raise BadAnswer(f"the broker refuses ApiVersions in version {version} and says that it has {again}")
    return again


def _highest(max_versions: Iterable[int]) -> int:
    """Brokers before 2.4 do not say which they have; all have version 0."""
    return max(max_versions, default=0)
