"""A controller's registration with the quorum's leader: its endpoints, and the features that it supports."""

from __future__ import annotations

from collections.abc import Mapping

from cordwood.config.broker import BrokerConfig
from cordwood.metadata.endpoints import Addresses, registered_endpoints
from cordwood.metadata.features import registered_features
from cordwood.wire.messages.controller_registration import ControllerRegistrationRequest, Feature, Listener
from cordwood.wire.primitives import Uuid


def controller_registration(
    config: BrokerConfig, addresses: Addresses, incarnation_id: Uuid, finalized: Mapping[str, int]
) -> ControllerRegistrationRequest:
    return ControllerRegistrationRequest(
        controller_id=config.node_id,
        incarnation_id=incarnation_id,
        zk_migration_ready=False,
        listeners=[
            Listener(**endpoint._asdict())
            for endpoint in registered_endpoints(config.listeners.advertised_controllers, addresses)
        ],
        features=[
            Feature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
            for name, levels in registered_features(finalized).items()
        ],
    )
