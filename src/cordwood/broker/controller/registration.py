"""A broker's registration with the controller: its endpoints, features and directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cordwood.config.broker import BrokerConfig
from cordwood.metadata.endpoints import Addresses, registered_endpoints
from cordwood.metadata.features import registered_features
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from cordwood.wire.primitives import Uuid


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

    `previous_broker_epoch` is that of the previous start if it ended with a clean stop; -1 otherwise.
    """
    rack = config["broker.rack"]
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[
            Listener(**endpoint._asdict())
            for endpoint in registered_endpoints(config.listeners.advertised_brokers, addresses)
        ],
        features=[
            Feature(name=name, min_supported_version=levels.low, max_supported_version=levels.high)
            for name, levels in registered_features(finalized).items()
        ],
        rack=None if rack is None else str(rack),
        log_dirs=list(log_dirs),
        previous_broker_epoch=previous_broker_epoch,
    )
