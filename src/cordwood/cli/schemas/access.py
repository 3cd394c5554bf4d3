"""The client for a schema registry, as options and variables say."""

from __future__ import annotations

import os
from typing import Final

from cordwood.cli.connection.access import EXIT_BAD_INPUT, fail
from cordwood.registry.client import RegistryClient
from cordwood.runtime.tls import ClientTls, KeyPair, TlsError

CA: Final = "CORDWOOD_REGISTRY_CA"
CERTIFICATE: Final = "CORDWOOD_REGISTRY_CERTIFICATE"
KEY: Final = "CORDWOOD_REGISTRY_KEY"
"""PEM files, for https: the certificates to trust instead of the system's, and those to present."""


def registry_client(url: str, user: str | None) -> RegistryClient:
    """`user` is NAME:PASSWORD."""
    name, _, password = (user or "").partition(":")
    return RegistryClient(url, user=name or None, password=password, tls=_tls())


def _tls() -> ClientTls | None:
    ca_file, certificate_file, key_file = (os.environ.get(name) for name in (CA, CERTIFICATE, KEY))
    if ca_file is None and certificate_file is None:
        return None
    try:
        return ClientTls(ca_file, None if certificate_file is None else KeyPair(certificate_file, key_file))
    except TlsError as error:
        fail(f"{CA}, {CERTIFICATE} or {KEY}: {error}", EXIT_BAD_INPUT)
