"""The exceptions of the client: always a `ClientError`, which says whether a retry may help.

ClientError
├── BadSetting
├── IllegalState             a call that does not fit what went before
│   └── Closed
├── SerializationFailed
├── NetworkFailed
├── CannotReachCluster       no bootstrap address answers
├── BadAnswer
├── UnsupportedByBroker
├── TimedOut
│   ├── BufferExhausted      max_block_ms without room for a record
│   └── GaveUp               retried until the time was over
├── InvalidOffset
│   ├── NoOffsetForPartition
│   └── OffsetOutOfRange
│       └── LogTruncation
├── CommitFailed             the group has given the partitions to others
├── RetriableCommitFailed    a commit that is not retried by itself
├── WakeupError              wakeup() was called while, or before, the consumer read
├── TransactionAborted       records that were not sent when their transaction was aborted
└── BrokerError              with Kafka's code; these by their codes:
    ├── AuthenticationFailed, AuthorizationFailed
    ├── TopicNotFound
    │   └── TopicNotCreated  not even after max_block_ms: a TimedOut, too
    ├── RecordTooLarge
    ├── RebalanceInProgress
    ├── GroupFenced          another has the group_instance_id
    ├── TransactionAbortable
    └── FatalTransactionError
        └── ProducerFenced   another has the transactional_id
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from cordwood.client.error_meanings import MEANINGS, STALE_METADATA, WHAT_TO_DO
from cordwood.wire.errors import ErrorCode

if TYPE_CHECKING:
    from cordwood.client.cluster import TopicPartition
    from cordwood.runtime.network import Address


class ClientError(Exception):
    """The text is for people, on one line."""

    code: ErrorCode | None = None
    """Kafka's code, if there is one."""
    retriable: bool = False
    """True if the same call may succeed later."""
    what_to_do: str | None = None
    """Advice for people in one sentence, if there is any. A traceback shows it below the text."""

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        if self.what_to_do is not None:
            self.advise(self.what_to_do)

    def advise(self, what_to_do: str) -> None:
        """Sets advice for this particular case."""
        self.what_to_do = what_to_do
        if what_to_do not in str(self):
            notes = [note for note in getattr(self, "__notes__", ()) if not note.startswith(_WHAT_TO_DO)]
            self.__notes__ = [f"{_WHAT_TO_DO}{what_to_do}", *notes]


_WHAT_TO_DO = "what to do: "


class BadSetting(ClientError):
    """An argument or setting is invalid; the text says what is allowed."""

    code = ErrorCode.INVALID_CONFIG


class IllegalState(ClientError):
    """The call is invalid in this state: a commit without a transaction, a poll without a subscription."""


class Closed(IllegalState):
    """The producer, consumer or admin client is closed."""

    what_to_do = "create a new one"


class SerializationFailed(ClientError):
    """A serializer or deserializer failed, or there is none for a value of this type. The cause says more."""

    def __init__(self, message: str, partition: "TopicPartition | None" = None, offset: int | None = None) -> None:
        super().__init__(message)
        self.partition = partition
        self.offset = offset
        """The offset of a record that cannot be deserialized."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.partition, self.offset)


class NetworkFailed(ClientError):
    """A broker could not be reached, or was lost before it answered: the request may or may not have been executed."""

    code = ErrorCode.NETWORK_EXCEPTION
    retriable = True


class CannotReachCluster(ClientError):
    """No bootstrap address answers; the text has a reason for each."""

    code = ErrorCode.NETWORK_EXCEPTION
    retriable = True
    what_to_do = "check bootstrap_servers, security_protocol, and that a broker listens there"

    def __init__(self, failures: "Mapping[Address, ClientError]") -> None:
        super().__init__("; ".join(_at(address, error) for address, error in failures.items()))
        self.failures = failures

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (dict(self.failures),)


def _at(address: "Address", error: ClientError) -> str:
    text = str(error)
    return text if str(address) in text else f"{address}: {text}"


class BadAnswer(ClientError):
    """A broker's response violates the protocol."""


class UnsupportedByBroker(ClientError):
    """The broker has no version of a request in common with this client, or none that supports the arguments."""

    code = ErrorCode.UNSUPPORTED_VERSION
    what_to_do = "upgrade the brokers, or do without this feature"


class TimedOut(ClientError):
    """Timed out. The operation may still be executed."""

    code = ErrorCode.REQUEST_TIMED_OUT
    retriable = True


class BufferExhausted(TimedOut):
    """`buffer_memory` had no room for the record within `max_block_ms`; it was not queued."""

    what_to_do = "send more slowly, or raise buffer_memory or max_block_ms"


class GaveUp(TimedOut):
    """Retried until the timeout; `last` is the error of the last try."""

    # Callers should not retry an error that was already retried.
    retriable = False

    def __init__(self, last: ClientError, timeout_s: float) -> None:
        self.what_to_do = last.what_to_do
        super().__init__(f"{last}; gave up after {timeout_s:g} s")
        self.last = last
        self.timeout_s = timeout_s

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.last, self.timeout_s)


class InvalidOffset(ClientError):
    """These partitions have no valid position, and `auto_offset_reset` is none."""

    what_to_do = "seek to an offset, or set auto_offset_reset to earliest or latest"

    def __init__(self, message: str, offsets: "Mapping[TopicPartition, int | None]") -> None:
        super().__init__(message)
        self.offsets = offsets
        """The requested offset of each partition; None if there was none."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), dict(self.offsets))


class NoOffsetForPartition(InvalidOffset):
    """The group has committed nothing for these partitions."""


class OffsetOutOfRange(InvalidOffset):
    """The partitions do not hold these offsets: deleted since, or never written."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE


class LogTruncation(OffsetOutOfRange):
    """Records that were read have been truncated by an unclean election (KIP-320)."""

    what_to_do = "seek to one of divergent_offsets, or set auto_offset_reset to earliest or latest"

    def __init__(
        self,
        message: str,
        offsets: "Mapping[TopicPartition, int | None]",
        divergent_offsets: "Mapping[TopicPartition, int | None]",
    ) -> None:
        super().__init__(message, offsets)
        self.divergent_offsets = divergent_offsets
        """The offset up to which the log is unchanged; None if unknown."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), dict(self.offsets), dict(self.divergent_offsets))


class CommitFailed(ClientError):
    """The group has removed this member and given its partitions to others, which may read the records again."""

    what_to_do = "poll more often than max_poll_interval_ms: raise that, or lower max_poll_records"


class RetriableCommitFailed(ClientError):
    """A commit without a waiting caller was tried once and failed; the cause says why."""

    retriable = True
    what_to_do = "commit again, unless a later commit has been done"


class WakeupError(ClientError):
    """`wakeup()` was called: no record is lost, and the next call continues."""

    what_to_do = "end the loop that reads, or read on"


class TransactionAborted(ClientError):
    """The application aborted the transaction before this was sent."""


class BrokerError(ClientError):
    """A broker answered with an error code; `subject` is the topic or partition concerned.

    Like OSError with errno, it is instantiated as the subclass for its code: `BrokerError(PRODUCER_FENCED)` is a
    `ProducerFenced`. A subclass by itself, `ProducerFenced()`, has its own code.
    """

    code: ErrorCode
    outcomes: Mapping[Any, Any] = MappingProxyType({})
    """The results of an admin call about several resources: the value of each, or its `BrokerError`."""

    def __new__(cls, code: int | None = None, *args: object, **kwargs: object) -> Self:
        if cls is BrokerError and code is not None:
            return super().__new__(_CLASSES.get(code, cls))  # type: ignore[return-value]
        return super().__new__(cls)

    def __init__(self, code: int | None = None, message: str | None = None, subject: str | None = None) -> None:
        if code is not None:
            self.code = ErrorCode.of(code)
        self.subject = subject
        self.message = message
        self.retriable = self.code.retriable
        self.what_to_do = type(self).what_to_do or WHAT_TO_DO.get(self.code)
        reason = message or MEANINGS.get(self.code) or self.code.name.lower().replace("_", " ")
        # A broker's own message may have several lines; keep it on one.
        reason = " ".join(reason.split())
        super().__init__(f"{subject + ': ' if subject else ''}{reason.removesuffix('.')} ({self.code.name})")

    @property
    def is_stale_metadata(self) -> bool:
        """True if the request went to the wrong broker, so that fresh metadata helps."""
        return self.code in STALE_METADATA

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.code, self.message, self.subject)


class AuthenticationFailed(BrokerError):
    """Authentication failed: the broker rejected the credentials."""

    code = ErrorCode.SASL_AUTHENTICATION_FAILED


class AuthorizationFailed(BrokerError):
    """Authorization failed: the principal may not do this."""

    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    what_to_do = "add an ACL for this principal"


class TopicNotFound(BrokerError):
    """The topic or partition does not exist."""

    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    what_to_do = "create it, or check the name"


class TopicNotCreated(TopicNotFound, TimedOut):
    """The topic does not exist, and was not created within `max_block_ms`."""

    what_to_do = "create it, or check the name; brokers auto-create topics with auto.create.topics.enable"


class RecordTooLarge(BrokerError):
    """The record exceeds `max_request_size` of the producer or `max.message.bytes` of the topic."""

    code = ErrorCode.MESSAGE_TOO_LARGE
    what_to_do = "raise max_request_size and the topic's max.message.bytes, or send less in one record"


class RebalanceInProgress(BrokerError):
    """The group is rebalancing: the offsets were not committed."""

    code = ErrorCode.REBALANCE_IN_PROGRESS
    what_to_do = "poll, which takes part in the rebalance, then commit again"


class GroupFenced(BrokerError):
    """Another consumer has joined with the same `group_instance_id`."""

    code = ErrorCode.FENCED_INSTANCE_ID
    what_to_do = "close this consumer; give each its own group_instance_id"


class TransactionAbortable(BrokerError):
    """The transaction cannot be committed. After `abort_transaction` the producer can start the next one."""

    code = ErrorCode.TRANSACTION_ABORTABLE
    what_to_do = "call abort_transaction, then begin again"


class FatalTransactionError(BrokerError):
    """The producer cannot continue: its view of its transactions differs from the coordinator's."""

    code = ErrorCode.INVALID_TXN_STATE
    what_to_do = "close this producer and create a new one"


class ProducerFenced(FatalTransactionError):
    """A newer producer has the same `transactional_id`; the transaction was aborted."""

    code = ErrorCode.PRODUCER_FENCED
    what_to_do = "close this producer: another has taken its place"


_CLASSES: Mapping[int, type[BrokerError]] = {
    ErrorCode.SASL_AUTHENTICATION_FAILED: AuthenticationFailed,
    ErrorCode.UNSUPPORTED_SASL_MECHANISM: AuthenticationFailed,
    ErrorCode.ILLEGAL_SASL_STATE: AuthenticationFailed,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.GROUP_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: AuthorizationFailed,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: TopicNotFound,
    ErrorCode.UNKNOWN_TOPIC_ID: TopicNotFound,
    ErrorCode.MESSAGE_TOO_LARGE: RecordTooLarge,
    ErrorCode.RECORD_LIST_TOO_LARGE: RecordTooLarge,
    ErrorCode.REBALANCE_IN_PROGRESS: RebalanceInProgress,
    ErrorCode.FENCED_INSTANCE_ID: GroupFenced,
    ErrorCode.TRANSACTION_ABORTABLE: TransactionAbortable,
    ErrorCode.PRODUCER_FENCED: ProducerFenced,
}
