"""The addresses of a node's listeners, as it registers them."""

from collections.abc import Mapping, Sequence

from cordwood.config.network.listeners import Endpoint as ConfiguredEndpoint
from cordwood.config.network.listeners import SecurityProtocol
from cordwood.runtime.network import Address

from .image import Endpoint

# Where each listener is reached, by its name.
Addresses = Mapping[str, Address]


def wire_endpoint(endpoint: ConfiguredEndpoint, address: Address) -> Endpoint:
    return Endpoint(endpoint.listener, address.host, address.port, SecurityProtocol(endpoint.protocol).value)


def registered_endpoints(configured: Sequence[ConfiguredEndpoint], addresses: Addresses) -> list[Endpoint]:
    return [wire_endpoint(endpoint, addresses[endpoint.listener]) for endpoint in configured]
