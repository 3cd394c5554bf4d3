"""ApiVersions: the requests and versions served here, and the features in effect.

Everything is derived from the handlers' own declarations, so unhandled requests are not advertised. Finalized features
decide what newer Java clients use; they are answered from version 3 on. A feature that the cluster has finalized and
that is not served here is left out. An unknown version is answered in version 0 with UNSUPPORTED_VERSION and the range
of ApiVersions itself (KIP-511): `dispatch` does that. Version 3 added the client's name and version; a client may send
any text that a name may have. Version 4 fixed supported features whose least level is 0, which older clients reject:
they are left out below it.
"""

from __future__ import annotations

import re

from cordwood.metadata.features import KRAFT_VERSION, SUPPORTED
from cordwood.net.api import RequestContext, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

from .role import Role

# KIP-511: the allowed characters of a client's software name and version.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_SOFTWARE_SINCE = 3
_ZERO_LEVELS_SINCE = 4


@handles(ApiVersionsRequest)
def api_versions(role: Role, request: ApiVersionsRequest, context: RequestContext) -> ApiVersionsResponse:
    if context.version >= _SOFTWARE_SINCE and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=api_key, min_version=versions.low, max_version=versions.high)
            for api_key, versions in role.served_versions.items()
        ],
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.low, max_version=levels.high)
            for name, levels in SUPPORTED.items()
            if levels.low > 0 or context.version >= _ZERO_LEVELS_SINCE
        ],
        finalized_features_epoch=role.image.covers.offset - 1,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in _finalized(role).items()
        ],
    )


def _finalized(role: Role) -> dict[str, int]:
    """The quorum keeps its own level in its own records."""
    level = role.kraft_version
    served = {name: finalized for name, finalized in role.image.features.items() if name in SUPPORTED}
    return {**served, **({KRAFT_VERSION: level} if level else {})}
