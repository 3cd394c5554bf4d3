"""How a node presents itself to the controller: where it is reached, what it supports, which directories it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cordwood.config.broker import BrokerConfig
from cordwood.config.listeners import Endpoint as ConfiguredEndpoint
from cordwood.config.listeners import SecurityProtocol
from cordwood.metadata.features import registered_features
from cordwood.metadata.image import Endpoint
from cordwood.runtime.network import Address
from cordwood.wire.messages import broker_registration as of_broker
from cordwood.wire.messages import controller_registration as of_controller
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest
from cordwood.wire.messages.controller_registration import ControllerRegistrationRequest
from cordwood.wire.primitives import Uuid

# Where each listener is reached, by its name.
Addresses = Mapping[str, Address]


def broker_registration(
    config: BrokerConfig,
    cluster_id: str,
    addresses: Addresses,
    log_dirs: Sequence[Uuid],
    previous_broker_epoch: int,
    incarnation_id: Uuid,
    finalized: Mapping[str, int],
) -> BrokerRegistrationRequest:
    """`finalized` are the cluster's features.

    `previous_broker_epoch` is that of the stop before this start, if that was clean; -1 otherwise."""
    rack = config["broker.rack"]
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[
            of_broker.Listener(**endpoint._asdict())
            for endpoint in _endpoints(config.listeners.advertised_brokers, addresses)
        ],
        features=[
            of_broker.Feature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
            for name, levels in registered_features(finalized).items()
        ],
        rack=None if rack is None else str(rack),
        log_dirs=list(log_dirs),
        previous_broker_epoch=previous_broker_epoch,
    )


def controller_registration(
    config: BrokerConfig, addresses: Addresses, incarnation_id: Uuid, finalized: Mapping[str, int]
) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=config.node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        listeners=[
            of_controller.Listener(**endpoint._asdict())
            for endpoint in _endpoints(config.listeners.advertised_controllers, addresses)
        ],
        features=[
            of_controller.Feature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
            for name, levels in registered_features(finalized).items()
        ],
    )


def wire_endpoint(endpoint: ConfiguredEndpoint, address: Address) -> Endpoint:
    return Endpoint(endpoint.listener, address.host, address.port, SecurityProtocol(endpoint.protocol).value)


def _endpoints(configured: Sequence[ConfiguredEndpoint], addresses: Addresses) -> list[Endpoint]:
    return [wire_endpoint(endpoint, addresses[endpoint.listener]) for endpoint in configured]
