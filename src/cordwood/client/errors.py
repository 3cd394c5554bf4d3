"""What a call of the client may raise: always a `ClientError`, which says whether trying again may help."""

from cordwood.wire.errors import ErrorCode


class ClientError(Exception):
    """The text is for people, on one line."""

    retriable = False
    """Whether the same call may succeed later."""


class BadSetting(ClientError):
    """Something the caller gave cannot be used; the text says what is allowed."""


class NetworkFailed(ClientError):
    """A broker could not be reached, or was lost before it answered: the request may or may not have been done."""

    retriable = True


class CannotReachCluster(ClientError):
    """None of the bootstrap addresses answers; the text says why, for each of them."""

    retriable = True


class BadAnswer(ClientError):
    """A broker's response does not read as what the protocol says it is."""


class UnsupportedByBroker(ClientError):
    """The broker has no version of a request that we have, or none that can say what was asked."""


class BrokerError(ClientError):
    """A broker answered with an error code; `subject` is what it is about: a topic, a partition."""

    def __init__(self, code: int, message: str | None = None, subject: str | None = None) -> None:
        self.code = ErrorCode.of(code)
        self.subject = subject
        self.retriable = self.code.retriable
        reason = message or _MEANINGS.get(self.code) or self.code.name.lower().replace("_", " ")
        # A broker's own message may have several lines; ours have one.
        reason = " ".join(reason.split())
        super().__init__(f"{subject + ': ' if subject else ''}{reason.removesuffix('.')} ({self.code.name})")

    @property
    def is_stale_metadata(self) -> bool:
        """Whether we asked the wrong broker, so that fresh metadata helps."""
        return self.code in _STALE_METADATA


class GaveUp(ClientError):
    """Retried until the time was over; `last` is the error of the last try."""

    def __init__(self, last: ClientError, timeout_s: float) -> None:
        super().__init__(f"{last}; gave up after {timeout_s:g} s")
        self.last = last


_STALE_METADATA = frozenset(
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

# What brokers say without a message of their own.
_MEANINGS = {
    ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed in a way that its log tells more about",
    ErrorCode.OFFSET_OUT_OF_RANGE: "the partition does not hold this offset",
    ErrorCode.CORRUPT_MESSAGE: "the broker found the records damaged",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic or partition",
    ErrorCode.LEADER_NOT_AVAILABLE: "the partition has no leader now",
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
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "it has no coordinator now",
    ErrorCode.NOT_COORDINATOR: "the broker does not coordinate it",
    ErrorCode.INVALID_GROUP_ID: "not a valid name of a group",
    ErrorCode.GROUP_ID_NOT_FOUND: "there is no such group",
    ErrorCode.NON_EMPTY_GROUP: "the group has members",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not allowed on this group",
    ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC: "members of the group read the topic",
    ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "there is no such transactional id",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not allowed on this transactional id",
    ErrorCode.CONCURRENT_TRANSACTIONS: "its last transaction is still being ended",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "the broker does not know this compression",
}
