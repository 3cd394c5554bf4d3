"""SaslHandshake: starts SASL authentication.

On a listener without SASL that is ILLEGAL_SASL_STATE, with an empty list of mechanisms.
"""

from __future__ import annotations

from cordwood.net.api import RequestContext, handles
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


@handles(SaslHandshakeRequest)
def sasl_handshake(role: object, request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
