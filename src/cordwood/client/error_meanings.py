"""Explains Kafka's error codes: what they mean, what helps, and which ones indicate stale metadata."""

from cordwood.wire.errors import ErrorCode

# The request went to the wrong broker: fresh metadata helps.
STALE_METADATA = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LISTENER_NOT_FOUND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.BROKER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NETWORK_EXCEPTION,
    }
)

# Default messages, for errors without one.
MEANINGS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed unexpectedly; see its log",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition does not hold this offset",
    ErrorCode.CORRUPT_MESSAGE: "the broker found the records damaged",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "the broker does not lead the partition",
    ErrorCode.REQUEST_TIMED_OUT: "the brokers did not finish in time",
    ErrorCode.MESSAGE_TOO_LARGE: "larger than max.message.bytes of the topic",
    ErrorCode.NOT_ENOUGH_REPLICAS: "fewer replicas are in sync than min.insync.replicas",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "written, but by fewer replicas than min.insync.replicas",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "not a valid topic name",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not allowed on this topic",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not allowed on this cluster",
    ErrorCode.TOPIC_ALREADY_EXISTS: "the topic exists already",
    ErrorCode.TOPIC_DELETION_DISABLED: "the brokers do not delete topics (delete.topic.enable)",
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "its coordinator is still loading",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "it has no coordinator",
    ErrorCode.NOT_COORDINATOR: "the broker does not coordinate it",
    ErrorCode.INVALID_GROUP_ID: "not a valid group name",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not allowed on this group",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read the topic",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not allowed on this transactional id",
    ErrorCode.CONCURRENT_TRANSACTIONS: "its last transaction is still being ended",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "transaction_timeout_ms is above the brokers' transaction.max.timeout.ms",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not support this compression type",
}

WHAT_TO_DO = {
    ErrorCode.NOT_ENOUGH_REPLICAS: "start the missing brokers, or lower min.insync.replicas",
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: "start the missing brokers, or lower min.insync.replicas",
    ErrorCode.TOPIC_ALREADY_EXISTS: "use it, or choose another name",
    ErrorCode.NON_EMPTY_GROUP: "stop its members first",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "lower transaction_timeout_ms, or raise transaction.max.timeout.ms",
    ErrorCode.INVALID_SESSION_TIMEOUT: "set session_timeout_ms between the brokers' least and greatest",
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL: "give all members an assignor in common (partition_assignment_strategy)",
    ErrorCode.GROUP_MAX_SIZE_REACHED: "stop a member, or raise the brokers' group.max.size",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "choose another compression_type",
    ErrorCode.OFFSET_METADATA_TOO_LARGE: "commit with shorter metadata, or raise offset.metadata.max.bytes",
    ErrorCode.UNRELEASED_INSTANCE_ID: "stop the other with this group_instance_id, or wait for its session to end",
    ErrorCode.THROTTLING_QUOTA_EXCEEDED: "request less at a time, or wait",
}
