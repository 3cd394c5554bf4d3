"""Envelope (KIP-590): a client's request as a broker forwards it to the controller, with the client's principal and
address. The frame of the request is inside, in the client's version; the response comes back in the same way.

The principal is in the form of Kafka's DefaultKafkaPrincipalBuilder.
"""

from __future__ import annotations

from ipaddress import ip_address
from struct import Struct
from typing import NamedTuple

from cordwood.net.api import RequestContext
from cordwood.net.connection_info import ConnectionInfo
from cordwood.net.principal import Principal
from cordwood.wire.codec import decode, encode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.frames import decode_response, encode_request, encode_response
from cordwood.wire.messages.data.default_principal_data import DefaultPrincipalData
from cordwood.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from cordwood.wire.schema import Request, Response, ResponseT

_SIZE_BYTES = 4
_VERSION = Struct(">h")
_PRINCIPAL_VERSION = 0
_UNKNOWN_HOST = bytes(4)


class BadEnvelope(Exception):
    """The envelope's client information is unreadable."""


class ForwardedRequest(NamedTuple):
    """The `RequestContext` of a request that came in an envelope."""

    version: int
    client_id: str
    listener: str
    principal: Principal
    client_host: str
    # That of the broker says nothing about the client.
    connection: ConnectionInfo | None = None


def wrap(request: Request[ResponseT], context: RequestContext) -> EnvelopeRequest:
    frame = encode_request(request, context.version, 0, context.client_id)
    host = "" if context.connection is None else context.connection.peer.host
    return EnvelopeRequest(
        request_data=frame[_SIZE_BYTES:],
        request_principal=_encode_principal(context.principal),
        client_host_address=_encode_host(host),
    )


def unwrap(request: Request[ResponseT], context: RequestContext, response: EnvelopeResponse) -> ResponseT:
    """The response within an envelope that has no error. Raises `DecodeError`."""
    response_type: type[ResponseT] = type(request).response  # type: ignore[assignment]
    return decode_response(response_type, context.version, response.response_data or b"")[1]


def response_data(response: Response, version: int, correlation_id: int) -> bytes:
    return encode_response(response, version, correlation_id)[_SIZE_BYTES:]


def _encode_principal(principal: Principal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.type, name=principal.name, token_authenticated=principal.is_token_authenticated
    )
    return _VERSION.pack(_PRINCIPAL_VERSION) + encode(data, _PRINCIPAL_VERSION)


def decode_principal(data: bytes | None) -> Principal:
    """Raises `BadEnvelope`."""
    if data is None or len(data) < _VERSION.size:
        raise BadEnvelope("an envelope without a principal")
    (version,) = _VERSION.unpack_from(data)
    if version not in DefaultPrincipalData.versions:
        raise BadEnvelope(f"no version {version} of a principal is known")
    try:
        principal = decode(DefaultPrincipalData, version, bytes(data)[_VERSION.size :])
    except DecodeError as error:
        raise BadEnvelope(f"the principal of an envelope: {error}") from error
    return Principal(principal.type, principal.name, principal.token_authenticated)


def _encode_host(host: str) -> bytes:
    try:
        return ip_address(host).packed
    except ValueError:
        return _UNKNOWN_HOST


def decode_host(address: bytes) -> str:
    """Raises `BadEnvelope`."""
    try:
        return str(ip_address(bytes(address)))
    except ValueError as error:
        raise BadEnvelope(f"an address of {len(address)} bytes") from error
