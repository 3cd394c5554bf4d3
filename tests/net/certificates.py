"""An authority and what it signs, made for a test and written as PEM."""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from cordwood.runtime.tls import KeyPair


@dataclass(frozen=True, slots=True)
class Authority:
    folder: Path
    name: str
    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @property
    def ca_file(self) -> str:
        return str(self.folder / f"{self.name}.pem")

    def issue(self, common_name: str, password: str | None = None) -> KeyPair:
        """A certificate for this name and this machine, with its key in another file."""
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        return self._issue(common_name, names, password)

    def issue_for(self, common_name: str, hosts: Sequence[str]) -> KeyPair:
        """A certificate with these alternative names."""
        return self._issue(common_name, [x509.DNSName(host) for host in hosts], None)

    def _issue(self, common_name: str, names: list[x509.GeneralName], password: str | None) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = _certificate(common_name, key, self.certificate.subject, self.key, names, is_authority=False)
        certificate_file = self.folder / f"{common_name}.crt"
        key_file = self.folder / f"{common_name}.key"
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        key_file.write_bytes(_pem(key, password))
        return KeyPair(str(certificate_file), str(key_file), password)


def authority(folder: Path, name: str) -> Authority:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _certificate(name, key, None, key, [], is_authority=True)
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(folder, name, key, certificate)


def _certificate(
    common_name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    names: list[x509.GeneralName],
    *,
    is_authority: bool,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _pem(key: ec.EllipticCurvePrivateKey, password: str | None) -> bytes:
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password is not None:
        encryption = serialization.BestAvailableEncryption(password.encode())
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
