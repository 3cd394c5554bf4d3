"""TLS settings: PEM files become contexts, and a file that will not do is refused with its name and the reason."""

import ssl
from dataclasses import dataclass
from enum import Enum


class TlsError(Exception):
    """A TLS setting cannot be used; the text names the file and says what is wrong with it."""


class ClientAuth(Enum):
    """`ssl.client.auth`: whether clients show a certificate. What they show is always verified."""

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
    """PEM: the certificate chain, own certificate first; the key may stand in the same file."""

    certificate_file: str
    key_file: str | None = None
    key_password: str | None = None


class ServerTls:
    """`ca_file` holds the certificates that clients' are verified against. Raises `TlsError`."""

    def __init__(
        self, keys: KeyPair, client_auth: ClientAuth = ClientAuth.NONE, ca_file: str | None = None, ciphers: str = ""
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        _load_keys(context, keys)
        if client_auth is not ClientAuth.NONE:
            if ca_file is None:
                raise TlsError(
                    f"client certificates are {client_auth.value}, but there is no file of certificates "
                    "to verify them against"
                )
            _load_authorities(context, ca_file)
            context.verify_mode = _VERIFY_MODES[client_auth]
        _set_ciphers(context, ciphers)
        self.context = context


class ClientTls:
    """Without `ca_file` the system's authorities are trusted. Raises `TlsError`."""

    def __init__(
        self,
        ca_file: str | None = None,
        keys: KeyPair | None = None,
        *,
        check_hostname: bool = True,
        ciphers: str = "",
    ) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = check_hostname
        if ca_file is None:
            context.load_default_certs()
        else:
            _load_authorities(context, ca_file)
        if keys is not None:
            _load_keys(context, keys)
        _set_ciphers(context, ciphers)
        self.context = context


def _load_keys(context: ssl.SSLContext, keys: KeyPair) -> None:
    key_file = keys.key_file or keys.certificate_file
    _check_pem(keys.certificate_file, "certificate", "CERTIFICATE-----")
    _check_pem(key_file, "private key", "PRIVATE KEY-----")
    # A function, not the password itself: without one OpenSSL would ask at the terminal.
    password = keys.key_password or ""
    try:
        context.load_cert_chain(keys.certificate_file, key_file, lambda: password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise TlsError(f"the key in {key_file} is not the one of {keys.certificate_file}") from error
        if "ENCRYPTED" in _text(key_file, "private key") and not keys.key_password:
            raise TlsError(f"the private key in {key_file} is encrypted, and there is no password for it") from error
        hint = "; is the password right?" if keys.key_password else ""
        raise TlsError(
            f"cannot use the certificate in {keys.certificate_file} with the key in {key_file}: {_reason(error)}{hint}"
        ) from error


def _load_authorities(context: ssl.SSLContext, ca_file: str) -> None:
    _check_pem(ca_file, "trusted certificate", "CERTIFICATE-----")
    try:
        context.load_verify_locations(ca_file)
    except ssl.SSLError as error:
        raise TlsError(f"cannot use the trusted certificates in {ca_file}: {_reason(error)}") from error


def _set_ciphers(context: ssl.SSLContext, ciphers: str) -> None:
    if not ciphers:
        return
    try:
        context.set_ciphers(ciphers)
    except ssl.SSLError as error:
        raise TlsError(f"there is no cipher suite among {ciphers!r} (OpenSSL's names, joined by colons)") from error


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
