"""TLS settings: turns PEM files into contexts, and rejects unusable files with their name and the reason."""

import re
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum

from cordwood.runtime.transport.certificate import CertificateNames, names_in


class TlsError(Exception):
    """A TLS setting cannot be used; the text names the file and says what is wrong with it."""


class ClientAuth(Enum):
    """`ssl.client.auth`: whether clients must present a certificate. A presented certificate is always verified."""

    NONE = "none"
    REQUESTED = "requested"
    REQUIRED = "required"


_VERIFY_MODES = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class KeyPair:
    """PEM: the certificate chain, own certificate first; the key may be in the same file. Each may be PEM text instead
    of a path."""

    certificate_file: str
    key_file: str | None = None
    key_password: str | None = None


class ServerTls:
    """`ca_file` holds the CA certificates for client certificates, as a path or as PEM text. `protocols` are Java's
    names: TLSv1.2, TLSv1.3. Raises `TlsError`."""

    def __init__(
        self,
        keys: KeyPair,
        client_auth: ClientAuth = ClientAuth.NONE,
        ca_file: str | None = None,
        ciphers: str = "",
        protocols: Sequence[str] = (),
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _set_protocols(context, protocols)
        _load_keys(context, keys)
        if client_auth is not ClientAuth.NONE:
            if ca_file is None:
                raise TlsError(
                    f"client certificates are {client_auth.value}, but no CA file is configured to verify them against"
                )
            _load_authorities(context, ca_file)
            context.verify_mode = _VERIFY_MODES[client_auth]
        _set_ciphers(context, ciphers)
        self.context = context
        # The names in the current certificate.
        self.names = _names_of(keys)


class ClientTls:
    """Without `ca_file` the system's CA certificates are trusted. `protocols` as in `ServerTls`. Raises `TlsError`."""

    def __init__(
        self,
        ca_file: str | None = None,
        keys: KeyPair | None = None,
        *,
        check_hostname: bool = True,
        ciphers: str = "",
        protocols: Sequence[str] = (),
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _set_protocols(context, protocols)
        context.check_hostname = check_hostname
        if ca_file is None:
            context.load_default_certs()
        else:
            _load_authorities(context, ca_file)
        if keys is not None:
            _load_keys(context, keys)
        _set_ciphers(context, ciphers)
        self.context = context


_PROTOCOLS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def _set_protocols(context: ssl.SSLContext, protocols: Sequence[str]) -> None:
    if not protocols:
        return
    unknown = [name for name in protocols if name not in _PROTOCOLS]
    if unknown:
        raise TlsError(f"ssl.enabled.protocols: {unknown[0]} is not supported; expected one of {', '.join(_PROTOCOLS)}")
    context.minimum_version = min(_PROTOCOLS[name] for name in protocols)
    context.maximum_version = max(_PROTOCOLS[name] for name in protocols)


_PEM_MARK = "-----BEGIN "


@contextmanager
def _as_file(source: str) -> Iterator[str]:
    """Writes PEM text to a temporary file, readable only by its owner, because OpenSSL reads keys from files. Error
    texts name that file."""
    if _PEM_MARK not in source:
        yield source
        return
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="pem-", suffix=".pem") as file:
        file.write(source)
        file.flush()
        yield file.name


def _names_of(keys: KeyPair) -> CertificateNames:
    source = keys.certificate_file
    try:
        return names_in(source if _PEM_MARK in source else _text(source, "certificate"))
    except ValueError as error:
        raise TlsError(f"cannot read the names in the certificate of {source}: {error}") from error


def _load_keys(context: ssl.SSLContext, keys: KeyPair) -> None:
    with _as_file(keys.certificate_file) as certificates, _as_file(keys.key_file or keys.certificate_file) as key:
        _load_key_files(context, KeyPair(certificates, key, keys.key_password))


def _load_key_files(context: ssl.SSLContext, keys: KeyPair) -> None:
    key_file = keys.key_file or keys.certificate_file
    _check_pem(keys.certificate_file, "certificate", "CERTIFICATE-----")
    _check_pem(key_file, "private key", "PRIVATE KEY-----")
    # A callback, not the password itself: without one OpenSSL would prompt on the terminal.
    password = keys.key_password or ""
    try:
        context.load_cert_chain(keys.certificate_file, key_file, lambda: password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(
                f"the key in {key_file} does not match the certificate in {keys.certificate_file}"
            ) from error
        if "ENCRYPTED" in _text(key_file, "private key") and not keys.key_password:
            raise TlsError(f"the private key in {key_file} is encrypted, but no password is configured") from error
        hint = "; is the password right?" if keys.key_password else ""
        raise TlsError(
            f"cannot use the certificate in {keys.certificate_file} with the key in {key_file}: {_reason(error)}{hint}"
        ) from error


def _load_authorities(context: ssl.SSLContext, source: str) -> None:
    with _as_file(source) as ca_file:
        _load_authority_file(context, ca_file)


def _load_authority_file(context: ssl.SSLContext, ca_file: str) -> None:
    _check_pem(ca_file, "trusted certificate", "CERTIFICATE-----")
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise TlsError(f"cannot use the trusted certificates in {ca_file}: {_reason(error)}") from error


# OpenSSL's defaults, which Python cannot change: it can select only TLS 1.2 cipher suites.
_TLS_13_SUITES = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_STANDARD_NAME = re.compile(r"TLS_(\w+)_WITH_(\w+)")


def _set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    """Enables only these suites; a TLS version without any of them is disabled."""
    if not ciphers:
        return
    names = ciphers.split(":")
    newer = [name for name in names if name in _TLS_13_SUITES]
    older = [_openssl_name(name) for name in names if name not in _TLS_13_SUITES]
    if not newer:
        _narrow(context, ciphers, maximum=ssl.TLSVersion.TLSv1_2)
    elif not set(newer).issuperset(_TLS_13_SUITES) and context.maximum_version != ssl.TLSVersion.TLSv1_2:
        missing = next(name for name in _TLS_13_SUITES if name not in newer)
        raise TlsError(
            f"ssl.cipher.suites: {missing} cannot be disabled, because Python cannot select the cipher suites of "
            f"TLS 1.3; name all of {', '.join(_TLS_13_SUITES)}, or set ssl.enabled.protocols=TLSv1.2"
        )
    if not older:
        _narrow(context, ciphers, minimum=ssl.TLSVersion.TLSv1_3)
        return
    try:
        context.set_ciphers(":".join(older))
    except ssl.SSLError as error:
        raise TlsError(f"ssl.cipher.suites: no known cipher suite in {ciphers!r}") from error


def _narrow(
    context: ssl.SSLContext,
    ciphers: str,
    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
    maximum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3,
) -> None:
    speaks = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    enabled = [
        each
        for each in speaks
        if context.minimum_version <= each
        and (context.maximum_version == ssl.TLSVersion.MAXIMUM_SUPPORTED or each <= context.maximum_version)
    ]
    left = [each for each in enabled if minimum <= each <= maximum]
    if not left:
        raise TlsError(f"ssl.cipher.suites: none of {ciphers!r} works with ssl.enabled.protocols")
    context.minimum_version, context.maximum_version = left[0], left[-1]


def _openssl_name(name: str) -> str:
    """Java and the RFCs say TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, OpenSSL says ECDHE-RSA-AES256-GCM-SHA384."""
    parts = _STANDARD_NAME.fullmatch(name)
    if parts is None:
        return name
    exchange = "" if parts[1] == "RSA" else parts[1].replace("_", "-") + "-"
    cipher = re.sub(r"(AES|CAMELLIA|ARIA)_(\d+)", r"\1\2", parts[2]).replace("_CBC_", "_")
    return exchange + cipher.removesuffix("_SHA256" if "POLY1305" in cipher else "").replace("_", "-")


def _check_pem(path: str, what: str, mark: str) -> None:
    if mark not in _text(path, what):
        raise TlsError(f"there is no {what} in PEM form in {path}")


def _text(path: str, what: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError as error:
        raise TlsError(f"cannot read the {what} file {path}: {error.strerror}") from error


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).replace("_", " ").lower()
