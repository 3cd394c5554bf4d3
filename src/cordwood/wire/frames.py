"""Messages with their framing: requests and responses with headers, stored records with prefixes.

On a connection each frame follows its size in four bytes. Encoding writes the size; decoding takes the frame without
it, because the reader of a connection has already consumed the size.

As in Kafka's broker and clients, trailing bytes of a frame are ignored unless `strict`; after a metadata record they
are always an error.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import Any

from cordwood.wire.codec import (
    BAD_BYTES,
    BAD_VALUES,
    Part,
    decode,
    decoder_for,
    encode,
    encoder_for,
    join_parts,
    refusal_of,
    refusal_of_bytes,
)
from cordwood.wire.decoder import Decoder, Malformed
from cordwood.wire.encoder import Encoder
from cordwood.wire.exceptions import DecodeError, UnsupportedRequest
from cordwood.wire.messages import (
    coordinator_key_class,
    coordinator_value_class,
    metadata_record_class,
    request_class,
)
from cordwood.wire.messages.headers import RequestHeader, ResponseHeader
from cordwood.wire.primitives import Buffer, decode_uvarint, encode_uvarint
from cordwood.wire.schema import (
    CoordinatorKey,
    CoordinatorValue,
    Message,
    MetadataRecord,
    Request,
    Response,
    ResponseT,
)

METADATA_FRAME_VERSION = 1

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_START = struct.Struct(">hhi")
# Position of the correlation id in a request.
_CORRELATION_AT = 4
_CORRELATION_END = 8
_RESPONSE_START = {0: struct.Struct(">ii").pack, 1: struct.Struct(">iix").pack}
_RESPONSE_HEADER_SIZE = {0: 4, 1: 5}


# ---- requests


def decode_request(frame: Buffer, *, strict: bool = False) -> tuple[RequestHeader, Request[Any]]:
    """Raises `DecodeError`, or its subclass `UnsupportedRequest` if only the API or its version is unknown."""
    try:
        api_key, version, correlation_id = _START.unpack_from(frame, 0)
    except struct.error as error:
        raise refusal_of_bytes(RequestHeader, 1, frame, 0, False) from error
    decoders = _REQUEST_DECODERS.get((api_key, version, frame.__class__ is bytes))
    if decoders is None:
        decoders = _request_decoders(api_key, version, correlation_id, frame)
    cls, header_version, decode_header, decode_body = decoders
    size = len(frame)
    header_end = -1
    try:
        header, header_end = decode_header(frame, 0, size)
        request, position = decode_body(frame, header_end, size)
        if position != size and (strict or position > size):
            raise Malformed
    except BAD_BYTES as error:
        if not 0 < header_end <= size:
            raise refusal_of_bytes(RequestHeader, header_version, frame, 0, False) from error
        raise refusal_of_bytes(cls, version, frame, header_end, strict) from error
    return header, request


def encode_request(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The whole frame, size included."""
    return b"".join(_request_pieces(request, version, correlation_id, client_id))


def encode_request_parts(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> list[Part]:
    """Like `encode_request`, with `records` passed through uncopied."""
    return join_parts(_request_pieces(request, version, correlation_id, client_id))


def _request_pieces(request: Request[Any], version: int, correlation_id: int, client_id: str | None) -> list[Any]:
    start, rest = _request_header(type(request), version, client_id)
    pieces: list[Any] = [b"", rest]
    _encode_into(pieces, request, version)
    size = _CORRELATION_END + sum(map(len, pieces))
    pieces[0] = _INT32.pack(size) + start + _INT32.pack(correlation_id)
    return pieces


@lru_cache(256)
def _request_header(cls: type[Request[Any]], version: int, client_id: str | None) -> tuple[bytes, bytes]:
    """The bytes before and after the correlation id, which are the same for all requests of one kind on a
    connection."""
    header = RequestHeader(
        request_api_key=cls.api_key, request_api_version=version, correlation_id=0, client_id=client_id
    )
    encoded = encode(header, cls.header_version(version))
    return encoded[:_CORRELATION_AT], encoded[_CORRELATION_END:]


_REQUEST_DECODERS: dict[tuple[int, int, bool], tuple[type[Request[Any]], int, Decoder, Decoder]] = {}


def _request_decoders(
    api_key: int, version: int, correlation_id: int, frame: Buffer
) -> tuple[type[Request[Any]], int, Decoder, Decoder]:
    try:
        cls = request_class(api_key)
    except KeyError:
        raise UnsupportedRequest(api_key, version, correlation_id, f"there is no API with key {api_key}") from None
    if version not in cls.versions:
        raise UnsupportedRequest(
            api_key,
            version,
            correlation_id,
            f"there is no version {version} of {cls.__name__}; its versions are {cls.versions}",
        )
    header_version = cls.header_version(version)
    decoders = (
        cls,
        header_version,
        decoder_for(RequestHeader, header_version, frame),
        decoder_for(cls, version, frame),
    )
    _REQUEST_DECODERS[api_key, version, frame.__class__ is bytes] = decoders
    return decoders


# ---- responses


def decode_response(
    cls: type[ResponseT], version: int, frame: Buffer, *, strict: bool = False
) -> tuple[int, ResponseT]:
    """The correlation id and the response."""
    size = len(frame)
    header_end = -1
    header_version = _response_header_version(cls, version)
    try:
        header, header_end = decoder_for(ResponseHeader, header_version, frame)(frame, 0, size)
        response, position = decoder_for(cls, version, frame)(frame, header_end, size)
        if position != size and (strict or position > size):
            raise Malformed
    except BAD_BYTES as error:
        if not 0 < header_end <= size:
            raise refusal_of_bytes(ResponseHeader, header_version, frame, 0, False) from error
        raise refusal_of_bytes(cls, version, frame, header_end, strict) from error
    return header.correlation_id, response


def encode_response(response: Response, version: int, correlation_id: int) -> bytes:
    """The whole frame, size included."""
    pieces = _response_pieces(response, version, correlation_id)
    try:
        return b"".join(pieces)
    except TypeError as error:
        raise refusal_of(response, version, error) from error


def encode_response_parts(response: Response, version: int, correlation_id: int) -> list[Part]:
    """Like `encode_response`, with `records` passed through uncopied, such as file ranges for sendfile."""
    return join_parts(_response_pieces(response, version, correlation_id))


def _response_pieces(response: Response, version: int, correlation_id: int) -> list[Any]:
    pieces: list[Any] = [b""]
    _encode_into(pieces, response, version)
    header_version = _response_header_version(type(response), version)
    size = sum(map(len, pieces)) + _RESPONSE_HEADER_SIZE[header_version]
    pieces[0] = _RESPONSE_START[header_version](size, correlation_id)
    return pieces


@cache
def _response_header_version(cls: type[Response], version: int) -> int:
    return cls.header_version(version)


def _encode_into(pieces: list[Any], message: Message, version: int) -> None:
    try:
        encoder_for(type(message), version)(message, pieces)
    except BAD_VALUES as error:
        raise refusal_of(message, version, error) from error


# ---- stored records


def encode_metadata_record(record: MetadataRecord, version: int) -> bytes:
    """A metadata record's value: frame version, API key and version as unsigned varints, then the body."""
    prefix = encode_uvarint(METADATA_FRAME_VERSION) + encode_uvarint(type(record).api_key)
    return prefix + encode_uvarint(version) + encode(record, version)


def decode_metadata_record(data: Buffer, log: str = "metadata") -> tuple[MetadataRecord, int]:
    """The record and its version."""
    try:
        frame_version, position = decode_uvarint(data, 0)
        api_key, position = decode_uvarint(data, position)
        version, position = decode_uvarint(data, position)
    except (IndexError, ValueError) as error:
        raise DecodeError("metadata record", "frame", 0, "no frame version, API key and API version") from error
    if frame_version != METADATA_FRAME_VERSION:
        raise DecodeError("metadata record", "frame", 0, f"frame version {frame_version}, not {METADATA_FRAME_VERSION}")
    try:
        cls = metadata_record_class(api_key, log)
    except KeyError:
        raise DecodeError("metadata record", "frame", 1, f"there is no record with key {api_key}") from None
    return _decode_body(cls, version, data, position, strict=True), version


def encode_coordinator_key(key: CoordinatorKey) -> bytes:
    """The record type, then the body: keys have one version."""
    cls = type(key)
    prefix_and_encoder = _KEY_ENCODERS.get(cls)
    if prefix_and_encoder is None:
        version = cls.versions.low
        prefix_and_encoder = _KEY_ENCODERS[cls] = (_INT16.pack(cls.record_type), version, encoder_for(cls, version))
    prefix, version, encoder = prefix_and_encoder
    pieces: list[Any] = [prefix]
    try:
        encoder(key, pieces)
        return b"".join(pieces)
    except BAD_VALUES as error:
        raise refusal_of(key, version, error) from error


_KEY_ENCODERS: dict[type[CoordinatorKey], tuple[bytes, int, Encoder]] = {}


def decode_coordinator_key(coordinator: str, data: Buffer) -> CoordinatorKey:
    data = bytes(data)
    known = _KEY_DECODERS.get((coordinator, data[:2]))
    if known is None:
        known = _key_decoder(coordinator, data)
    key: CoordinatorKey = _decode_prefixed(*known, data)
    return key


def encode_coordinator_value(value: CoordinatorValue, version: int) -> bytes:
    """The version, then the body."""
    pieces: list[Any] = [_INT16.pack(version)]
    try:
        encoder_for(type(value), version)(value, pieces)
        return b"".join(pieces)
    except BAD_VALUES as error:
        raise refusal_of(value, version, error) from error


def decode_coordinator_value(coordinator: str, record_type: int, data: Buffer) -> tuple[CoordinatorValue, int]:
    """The value and its version; `record_type` is that of its key."""
    data = bytes(data)
    known = _VALUE_DECODERS.get((coordinator, record_type, data[:2]))
    if known is None:
        known = _value_decoder(coordinator, record_type, data)
    return _decode_prefixed(*known, data), known[1]


# A coordinator's log has millions of records of few types: cache (class, version, decoder) by the record's first bytes.
_PrefixedDecoder = tuple[Any, int, Decoder]
_KEY_DECODERS: dict[tuple[str, bytes], _PrefixedDecoder] = {}
_VALUE_DECODERS: dict[tuple[str, int, bytes], _PrefixedDecoder] = {}


def _key_decoder(coordinator: str, data: bytes) -> _PrefixedDecoder:
    record_type = _prefix(data, "coordinator key")
    try:
        cls = coordinator_key_class(coordinator, record_type)
    except KeyError:
        raise DecodeError(
            "coordinator key", "type", 0, f"the {coordinator} coordinator has no record type {record_type}"
        ) from None
    known = cls, cls.versions.low, decoder_for(cls, cls.versions.low, data)
    _KEY_DECODERS[coordinator, data[:2]] = known
    return known


def _value_decoder(coordinator: str, record_type: int, data: bytes) -> _PrefixedDecoder:
    version = _prefix(data, "coordinator value")
    try:
        cls = coordinator_value_class(coordinator, record_type)
    except KeyError:
        raise DecodeError(
            "coordinator value", "type", 0, f"the {coordinator} coordinator has no record type {record_type}"
        ) from None
    _check_version(cls, version, 2)
    known = cls, version, decoder_for(cls, version, data)
    _VALUE_DECODERS[coordinator, record_type, data[:2]] = known
    return known


def _decode_prefixed(cls: Any, version: int, decoder: Decoder, data: bytes) -> Any:
    size = len(data)
    try:
        message, position = decoder(data, 2, size)
        if position > size:
            raise Malformed
    except BAD_BYTES as error:
        raise refusal_of_bytes(cls, version, data, 2, False) from error
    return message


def _prefix(data: Buffer, what: str) -> int:
    if len(data) < 2:
        raise DecodeError(what, "prefix", 0, f"2 bytes expected, {len(data)} available")
    prefix: int = _INT16.unpack_from(data, 0)[0]
    return prefix


def _decode_body(cls: Any, version: int, data: Buffer, position: int, *, strict: bool) -> Any:
    _check_version(cls, version, position)
    return decode(cls, version, bytes(data[position:]), strict=strict)


def _check_version(cls: Any, version: int, position: int) -> None:
    if version not in cls.versions:
        raise DecodeError(cls.__name__, "", position, f"there is no version {version}; its versions are {cls.versions}")
