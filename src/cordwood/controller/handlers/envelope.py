"""Envelope: the request of a client, forwarded by a broker (KIP-590).

The request within is answered as if the client had sent it here, in its version. A controller that is not active, or
ceases to be before the decision is committed, answers NOT_CONTROLLER for the envelope: the broker asks again, wherever
the controller is then. A request that is not forwarded by any broker is an INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from typing import Any

from cordwood.controller.controller import Controller
from cordwood.metadata.controller.error_response import error_response
from cordwood.net.api import Handler, RequestContext, handles
from cordwood.net.envelope import BadEnvelope, ForwardedRequest, decode_host, decode_principal, response_data
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode
from cordwood.wire.exceptions import DecodeError, UnsupportedRequest
from cordwood.wire.frames import decode_request
from cordwood.wire.messages.api_versions import ApiVersionsRequest
from cordwood.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from cordwood.wire.messages.sasl_handshake import SaslHandshakeRequest
from cordwood.wire.schema import Request

# Every broker answers these itself.
_NOT_FORWARDED = frozenset({ApiVersionsRequest.api_key, SaslHandshakeRequest.api_key})


def envelope_handler(handlers: Iterable[Handler[Controller]]) -> Handler[Controller]:
    """Serves the requests of these APIs that brokers forward."""
    by_key = {
        handler.api_key: handler
        for handler in handlers
        if "broker" in handler.request.listeners and handler.api_key not in _NOT_FORWARDED
    }

    async def envelope(controller: Controller, request: EnvelopeRequest, context: RequestContext) -> EnvelopeResponse:
        try:
            principal = decode_principal(request.request_principal)
        except BadEnvelope:
            return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
        try:
            host = decode_host(request.client_host_address)
            header, inner = decode_request(request.request_data)
        except UnsupportedRequest:
            return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        except (BadEnvelope, DecodeError):
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        handler = by_key.get(header.request_api_key)
        if handler is None:
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        version = header.request_api_version
        forwarded = ForwardedRequest(version, header.client_id or "", context.listener, principal, host)
        try:
            response = await _answer(handler, controller, inner, forwarded)
        except Refusal as refusal:
            if refusal.error is ErrorCode.NOT_CONTROLLER:
                return EnvelopeResponse(error_code=refusal.error)
            response = error_response(inner, refusal.error, version)
        return EnvelopeResponse(response_data=response_data(response, version, header.correlation_id))

    return handles(EnvelopeRequest)(envelope)


async def _answer(
    handler: Handler[Controller], controller: Controller, request: Request[Any], context: ForwardedRequest
) -> Any:
    result = handler.handle(controller, request, context)
    return await result if isinstance(result, Coroutine) else result
