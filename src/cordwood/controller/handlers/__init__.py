"""One module per API. `HANDLERS` is everything that a controller answers."""

from cordwood.controller.controller import Controller
from cordwood.metadata.answers.api_versions import api_versions
from cordwood.metadata.answers.describe_configs import describe_configs
from cordwood.metadata.answers.sasl_handshake import sasl_handshake
from cordwood.net.api import Handler

from .alter_configs import alter_configs
from .alter_partition_reassignments import alter_partition_reassignments
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
from .elect_leaders import elect_leaders
from .envelope import envelope_handler
from .incremental_alter_configs import incremental_alter_configs
from .list_partition_reassignments import list_partition_reassignments
from .quorum import QUORUM_HANDLERS
from .unregister_broker import unregister_broker
from .update_features import update_features

_DIRECT: tuple[Handler[Controller], ...] = (
    alter_configs,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
    sasl_handshake,
    unregister_broker,
    update_features,
    api_versions,
    *QUORUM_HANDLERS,
    # Asked by nodes on their own behalf.
    controller_registration,
    broker_registration,
    broker_heartbeat,
    allocate_producer_ids,
    alter_partition,
    assign_replicas_to_dirs,
)

HANDLERS: tuple[Handler[Controller], ...] = (*_DIRECT, envelope_handler(_DIRECT))
