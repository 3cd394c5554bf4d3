"""Security settings: Kafka's `security.protocol` and `ssl.*`, with PEM for keys and certificates."""

from dataclasses import dataclass

from cordwood.client.errors import BadSetting
from cordwood.runtime.tls import ClientTls, KeyPair, TlsError


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    security_protocol: str = "PLAINTEXT"
    """PLAINTEXT or SSL."""
    ssl_truststore_location: str | None = None
    """A PEM file with the certificates to trust, instead of the system's."""
    ssl_truststore_certificates: str | None = None
    """The trusted certificates themselves, in PEM."""
    ssl_truststore_type: str = "PEM"
    """PEM is the only type."""
    ssl_keystore_location: str | None = None
    """A PEM file with our own certificate and its key."""
    ssl_keystore_certificate_chain: str | None = None
    """Our own certificate, followed by its chain: in PEM, or the path of such a file."""
    ssl_keystore_key: str | None = None
    """The certificate's key: in PEM, or the path of such a file."""
    ssl_keystore_type: str = "PEM"
    """PEM is the only type."""
    ssl_key_password: str | None = None
    """Password of the key."""
    ssl_endpoint_identification_algorithm: str | None = "https"
    """https: the broker's certificate must match its host name; empty: no check."""
    ssl_enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    """TLSv1.2, TLSv1.3, or both."""
    ssl_cipher_suites: tuple[str, ...] = ()
    """Java's names or OpenSSL's. Empty: OpenSSL's defaults."""


def client_tls(security: Security) -> ClientTls | None:
    """None for PLAINTEXT. Raises `BadSetting`."""
    if security.security_protocol.startswith("SASL"):
        raise BadSetting(
            f"security_protocol is {security.security_protocol}, but SASL is not supported; expected PLAINTEXT or SSL"
        )
    if security.security_protocol == "PLAINTEXT":
        return None
    _check(security)
    check_hostname = security.ssl_endpoint_identification_algorithm or ""
    if check_hostname.lower() not in ("https", ""):
        raise BadSetting(f'ssl_endpoint_identification_algorithm is {check_hostname!r}; expected https or ""')
    try:
        return ClientTls(
            security.ssl_truststore_certificates or security.ssl_truststore_location,
            _keys(security),
            check_hostname=bool(check_hostname),
            ciphers=":".join(security.ssl_cipher_suites),
            protocols=security.ssl_enabled_protocols,
        )
    except TlsError as error:
        raise BadSetting(str(error)) from error


def _check(security: Security) -> None:
    for store in ("truststore", "keystore"):
        kind: str = getattr(security, f"ssl_{store}_type")
        if kind.upper() != "PEM":
            raise BadSetting(f"ssl_{store}_type is {kind}; expected PEM (convert a {kind} store with openssl)")
    if security.ssl_truststore_location is not None and security.ssl_truststore_certificates is not None:
        raise BadSetting("give ssl_truststore_location or ssl_truststore_certificates, not both")
    if security.ssl_keystore_location is not None and security.ssl_keystore_certificate_chain is not None:
        raise BadSetting("give ssl_keystore_location or ssl_keystore_certificate_chain, not both")
    if security.ssl_keystore_certificate_chain is not None and security.ssl_keystore_key is None:
        raise BadSetting("ssl_keystore_certificate_chain needs ssl_keystore_key")


def _keys(security: Security) -> KeyPair | None:
    certificates = security.ssl_keystore_certificate_chain or security.ssl_keystore_location
    if certificates is not None:
        return KeyPair(certificates, security.ssl_keystore_key, security.ssl_key_password)
    for name in ("ssl_keystore_key", "ssl_key_password"):
        if getattr(security, name) is not None:
            raise BadSetting(f"{name} needs a certificate: ssl_keystore_location or ssl_keystore_certificate_chain")
    return None
