"""One module per API: what is asked. `CONVERSATIONS` are all of them, by name."""

from __future__ import annotations

from importlib import import_module

from kafka_answers.conversation import Conversation

_NAMES = (
    "alter_configs",
    "alter_replica_log_dirs",
    "classic_groups",
    "consumer_groups",
    "cordoned_log_dirs",
    "create_partitions",
    "create_topics",
    "delete_topics",
    "delete_topics_disabled",
    "describe_cluster",
    "describe_configs",
    "describe_log_dirs",
    "describe_quorum",
    "describe_topic_partitions",
    "elect_leaders",
    "find_coordinator",
    "groups",
    "incremental_alter_configs",
    "list_config_resources",
    "offsets",
    "sasl_handshake",
    "timeouts",
    "unregister_broker",
    "update_features",
)

CONVERSATIONS: dict[str, Conversation] = {
    name: import_module(f"kafka_answers.questions.{name}").CONVERSATION for name in _NAMES
}
