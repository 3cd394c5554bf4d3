"""The options of reads and writes that say where the schema registry is, and the client for it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from cordwood.spark.errors import BadOption
from cordwood.spark.options import Options

if TYPE_CHECKING:
    from cordwood.registry.client import RegistryClient

CONNECTION: Final = (
    "registry",
    "registryUser",
    "registryPassword",
    "registrySslCa",
    "registrySslCertificate",
    "registrySslKey",
    "registrySslKeyPassword",
)


@dataclass(frozen=True, slots=True)
class RegistryConnection:
    url: str
    """Or several, separated by commas."""
    user: str | None = None
    password: str = ""
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = None


def registry_connection(options: Options) -> RegistryConnection | None:
    """None without the option `registry`. Raises `BadOption`."""
    url = options.text("registry")
    if url is None:
        for name in CONNECTION:
            if name in options:
                raise BadOption(f"{name} goes with the option registry, the URL of a schema registry")
        return None
    for each in url.split(","):
        if not each.strip().startswith(("http://", "https://")):
            raise BadOption(f"registry is {url!r}; expected http://host:port or https://host:port, or several")
    if "registryPassword" in options and "registryUser" not in options:
        raise BadOption("registryPassword goes with registryUser")
    if "registrySslKey" in options and "registrySslCertificate" not in options:
        raise BadOption("registrySslKey goes with registrySslCertificate")
    return RegistryConnection(
        url,
        options.text("registryUser"),
        options.text("registryPassword") or "",
        options.text("registrySslCa"),
        options.text("registrySslCertificate"),
        options.text("registrySslKey"),
        options.text("registrySslKeyPassword"),
    )


@lru_cache(16)
def client_of(connection: RegistryConnection) -> RegistryClient:
    """One in each process. Raises `BadOption` for files that cannot be used."""
    from cordwood.registry.client import RegistryClient
    from cordwood.runtime.tls import ClientTls, KeyPair, TlsError

    tls = None
    if connection.ca_file is not None or connection.certificate_file is not None:
        keys = None
        if connection.certificate_file is not None:
            keys = KeyPair(connection.certificate_file, connection.key_file, connection.key_password)
        try:
            tls = ClientTls(connection.ca_file, keys)
        except TlsError as error:
            raise BadOption(f"in the registrySsl options: {error}") from None
    return RegistryClient(connection.url, user=connection.user, password=connection.password, tls=tls)
