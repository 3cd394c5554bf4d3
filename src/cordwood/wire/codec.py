"""Encodes and decodes messages::

    data = encode(MetadataRequest(topics=None), 12)
    request = decode(MetadataRequest, 12, data)

The code for a class in a version is generated at its first use (decoder.py, encoder.py) and cached on the class.
"""

from __future__ import annotations

import struct
from typing import Any, TypeVar

from cordwood.wire.decoder import Decoder, Malformed, compile_decoder
from cordwood.wire.diagnosis import explain_refusal, read_slowly
from cordwood.wire.encoder import Encoder, compile_encoder
from cordwood.wire.exceptions import UNEXPLAINED, DecodeError, EncodeError
from cordwood.wire.layout import message_layout
from cordwood.wire.primitives import Buffer
from cordwood.wire.schema import Message, Records

M = TypeVar("M", bound=Message)

Part = Records
"""Bytes to send, or a placeholder with a length, such as a file range."""

# Everything that the generated code can raise on bad bytes and on bad values.
BAD_BYTES = (Malformed, struct.error, IndexError, ValueError)
BAD_VALUES = (Malformed, struct.error, AttributeError, TypeError, ValueError, OverflowError)


def decode(cls: type[M], version: int, data: Buffer, *, strict: bool = True) -> M:
    """Decodes the message in `data`; `records` fields are memoryviews into it.

    If strict, trailing bytes are an error. Raises only `DecodeError`.
    """
    size = len(data)
    try:
        message, position = decoder_for(cls, version, data)(data, 0, size)
        if position != size and (strict or position > size):
            raise Malformed
    except BAD_BYTES as error:
        raise refusal_of_bytes(cls, version, data, 0, strict) from error
    return message  # type: ignore[no-any-return]  # the compiled code makes exactly this class


def encode(message: Message, version: int) -> bytes:
    """Encodes a message. Raises `UnsupportedVersion` or another `EncodeError`, which name the field."""
    pieces: list[Any] = []
    try:
        encoder_for(type(message), version)(message, pieces)
        return b"".join(pieces)
    except BAD_VALUES as error:
        raise refusal_of(message, version, error) from error


def encode_parts(message: Message, version: int) -> list[Part]:
    """Like `encode`, in pieces: each `records` value is passed through uncopied, everything else is joined around
    it."""
    pieces: list[Any] = []
    try:
        encoder_for(type(message), version)(message, pieces)
        return join_parts(pieces)
    except BAD_VALUES as error:
        raise refusal_of(message, version, error) from error


def join_parts(pieces: list[Any]) -> list[Part]:
    parts: list[Part] = []
    first = 0
    for index, piece in enumerate(pieces):
        if piece.__class__ is not bytes:
            if first < index:
                parts.append(b"".join(pieces[first:index]))
            parts.append(piece)
            first = index + 1
    if first < len(pieces):
        parts.append(b"".join(pieces[first:]))
    return parts


def decoder_for(cls: type[Message], version: int, data: Buffer) -> Decoder:
    of_bytes = data.__class__ is bytes
    decoders = cls._decoders if of_bytes else cls._view_decoders
    decoder: Decoder | None = decoders.get(version)
    if decoder is None:
        decoder = decoders[version] = compile_decoder(message_layout(cls, version), of_bytes=of_bytes)
    return decoder


def encoder_for(cls: type[Message], version: int) -> Encoder:
    encoder: Encoder | None = cls._encoders.get(version)
    if encoder is None:
        encoder = cls._encoders[version] = compile_encoder(message_layout(cls, version))
    return encoder


def refusal_of_bytes(cls: type[Message], version: int, data: Buffer, position: int, strict: bool) -> DecodeError:
    """Decodes again with the slow decoder to find out what is wrong."""
    layout = message_layout(cls, version)
    try:
        _, end = read_slowly(layout, data, position, len(data), strict)
    except DecodeError as refusal:
        return refusal
    return DecodeError(layout.name, "", end, UNEXPLAINED)


def refusal_of(message: Message, version: int, error: Exception) -> EncodeError:
    """Checks each value to find the one that cannot be encoded."""
    layout = message_layout(type(message), version)
    found = explain_refusal(layout, message)
    return found or EncodeError(layout.name, "", f"cannot be written in version {version}: {error!r}")
