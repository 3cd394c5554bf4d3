"""One module per API. `HANDLERS` is everything that this broker serves."""

from cordwood.broker.broker import Broker
from cordwood.metadata.answers.api_versions import api_versions
from cordwood.metadata.answers.describe_configs import describe_configs
from cordwood.metadata.answers.sasl_handshake import sasl_handshake
from cordwood.net.api import Handler

from .add_offsets_to_txn import add_offsets_to_txn
from .add_partitions_to_txn import add_partitions_to_txn
from .alter_configs import alter_configs
from .alter_replica_log_dirs import alter_replica_log_dirs
from .consumer_group_describe import consumer_group_describe
from .consumer_group_heartbeat import consumer_group_heartbeat
from .delete_groups import delete_groups
from .delete_records import delete_records
from .describe_cluster import describe_cluster
from .describe_groups import describe_groups
from .describe_log_dirs import describe_log_dirs
from .describe_producers import describe_producers
from .describe_topic_partitions import describe_topic_partitions
from .describe_transactions import describe_transactions
from .end_txn import end_txn
from .fetch import fetch
from .find_coordinator import find_coordinator
from .forwarded import FORWARDED
from .heartbeat import heartbeat
from .incremental_alter_configs import incremental_alter_configs
from .init_producer_id import init_producer_id
from .join_group import join_group
from .leave_group import leave_group
from .list_config_resources import list_config_resources
from .list_groups import list_groups
from .list_offsets import list_offsets
from .list_transactions import list_transactions
from .metadata import metadata
from .offset_commit import offset_commit
from .offset_delete import offset_delete
from .offset_fetch import offset_fetch
from .offset_for_leader_epoch import offset_for_leader_epoch
from .produce import produce
from .sync_group import sync_group
from .txn_offset_commit import txn_offset_commit
from .write_txn_markers import write_txn_markers

HANDLERS: tuple[Handler[Broker], ...] = (
    produce,
    fetch,
    delete_records,
    describe_producers,
    init_producer_id,
    add_partitions_to_txn,
    add_offsets_to_txn,
    end_txn,
    write_txn_markers,
    describe_transactions,
    list_transactions,
    list_offsets,
    offset_for_leader_epoch,
    metadata,
    find_coordinator,
    offset_commit,
    offset_fetch,
    txn_offset_commit,
    offset_delete,
    list_groups,
    delete_groups,
    consumer_group_heartbeat,
    consumer_group_describe,
    alter_configs,
    alter_replica_log_dirs,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    incremental_alter_configs,
    list_config_resources,
    sasl_handshake,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    sync_group,
    *FORWARDED,
    api_versions,
)
