"""One module per API. `HANDLERS` is everything that a controller answers."""

from cordwood.controller.controller import Controller
from cordwood.metadata.answers.api_versions import api_versions
from cordwood.metadata.answers.describe_configs import describe_configs
from cordwood.metadata.answers.sasl_handshake import sasl_handshake
from cordwood.net.api import Handler

from .alter_configs import alter_configs
from .broker_requests import (
    allocate_producer_ids,
    alter_partition,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
)
from .create_partitions import create_partitions
from .create_topics import create_topics
from .delete_topics import delete_topics
from .describe_cluster import describe_cluster
from .describe_quorum import describe_quorum
from .elect_leaders import elect_leaders
from .incremental_alter_configs import incremental_alter_configs
from .unregister_broker import unregister_broker
from .update_features import update_features

HANDLERS: tuple[Handler[Controller], ...] = (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    elect_leaders,
    incremental_alter_configs,
    sasl_handshake,
    unregister_broker,
    update_features,
    api_versions,
    # Asked by nodes on their own behalf.
    controller_registration,
    broker_registration,
    broker_heartbeat,
    allocate_producer_ids,
    alter_partition,
    assign_replicas_to_dirs,
)
