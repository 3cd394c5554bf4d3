"""Scripted broker responses for an admin client."""

from cordwood.client.admin.admin import Admin
from cordwood.client.cluster import TopicPartition
from cordwood.client.settings import AdminSettings
from cordwood.runtime.network import Network
from cordwood.runtime.sockets import SocketNetwork
from tests.client.scripted_broker import IMPATIENT, ScriptedBroker

P0 = TopicPartition("t", 0)
P1 = TopicPartition("t", 1)
ABSENT = -1
"""The newest version of an API that a broker does not have."""


def admin_of(broker: ScriptedBroker, network: Network | None = None) -> Admin:
    settings = AdminSettings(
        bootstrap_servers=(broker.address,),
        retry_backoff_ms=IMPATIENT.retry_backoff_ms,
        retry_backoff_max_ms=IMPATIENT.retry_backoff_max_ms,
        reconnect_backoff_ms=IMPATIENT.reconnect_backoff_ms,
        reconnect_backoff_max_ms=IMPATIENT.reconnect_backoff_max_ms,
        default_api_timeout_ms=IMPATIENT.default_api_timeout_ms,
    )
    return Admin(settings, network=SocketNetwork() if network is None else network)
