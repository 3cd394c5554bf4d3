"""Reads the names in an X.509 certificate, which its replacement must keep. Python's ssl module returns only the names
of peers, after a handshake."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from typing import NamedTuple

# DER: tags, and the encoded object identifier of subjectAltName.
_VERSION = 0xA0
_EXTENSIONS = 0xA3
_OCTET_STRING = 0x04
_SUBJECT_ALT_NAME = bytes.fromhex("551d11")
_END_MARK = "-----END CERTIFICATE-----"


class CertificateNames(NamedTuple):
    # Attribute types and their values, in order, without case.
    subject: tuple[tuple[bytes, bytes], ...]
    # Subject alternative names, each with its type.
    alternatives: frozenset[tuple[int, bytes]]


def names_in(pem: str) -> CertificateNames:
    """The names in the first certificate of a PEM text. Raises ValueError."""
    start, end = pem.find("-----BEGIN CERTIFICATE-----"), pem.find(_END_MARK)
    if not 0 <= start < end:
        raise ValueError("there is no certificate")
    try:
        return _names(ssl.PEM_cert_to_DER_cert(pem[start : end + len(_END_MARK)]))
    except (IndexError, ValueError) as error:
        raise ValueError("the certificate is malformed") from error


def _names(certificate: bytes) -> CertificateNames:
    (_, whole), *_ = _elements(certificate)
    (_, signed), *_ = _elements(whole)
    fields = [field for field in _elements(signed) if field[0] != _VERSION]
    # Serial number, signature algorithm, issuer, validity, subject.
    _, subject = fields[4]
    attributes = []
    for _, relative_name in _elements(subject):
        for _, attribute in _elements(relative_name):
            (_, kind), (_, value) = _elements(attribute)
            attributes.append((kind, value.strip().lower()))
    alternatives: set[tuple[int, bytes]] = set()
    for tag, wrapped in fields[5:]:
        if tag == _EXTENSIONS:
            (_, extensions), *_ = _elements(wrapped)
            for _, extension in _elements(extensions):
                (_, identifier), *_, (last_tag, value) = _elements(extension)
                if identifier == _SUBJECT_ALT_NAME and last_tag == _OCTET_STRING:
                    (_, names), *_ = _elements(value)
                    alternatives.update(_elements(names))
    return CertificateNames(tuple(attributes), frozenset(alternatives))


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Tags and contents of the DER elements in `data`."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length & 0x80:
            count = length & 0x7F
            length, at = int.from_bytes(data[at : at + count], "big"), at + count
        yield tag, data[at : at + length]
        at += length
