"""Exceptions: their classes by Kafka's codes, and their texts."""

import copy
import pickle

import pytest

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import (
    AuthorizationFailed,
    BrokerError,
    CannotReachCluster,
    ClientError,
    FatalTransactionError,
    GaveUp,
    LogTruncation,
    NetworkFailed,
    NoOffsetForPartition,
    OffsetOutOfRange,
    ProducerFenced,
    RecordTooLarge,
    TimedOut,
    TopicNotFound,
)
from cordwood.runtime.network import Address
from cordwood.wire.errors import ErrorCode

P0 = TopicPartition("t", 0)


def test_a_broker_error_has_the_class_of_its_code() -> None:
    assert type(BrokerError(ErrorCode.PRODUCER_FENCED)) is ProducerFenced
    assert type(BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)) is TopicNotFound
    assert type(BrokerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)) is AuthorizationFailed
    assert type(BrokerError(ErrorCode.NOT_CONTROLLER)) is BrokerError


def test_a_subclass_has_its_own_code() -> None:
    assert RecordTooLarge(message="5 MB").code == ErrorCode.MESSAGE_TOO_LARGE
    assert str(RecordTooLarge(message="5 MB")) == "5 MB (MESSAGE_TOO_LARGE)"


def test_a_class_keeps_the_code_it_is_given() -> None:
    error = FatalTransactionError(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert type(error) is FatalTransactionError
    assert error.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_families_are_caught_together() -> None:
    assert issubclass(ProducerFenced, FatalTransactionError)
    assert issubclass(GaveUp, TimedOut)
    assert issubclass(LogTruncation, OffsetOutOfRange)


def test_a_code_says_whether_a_retry_may_help() -> None:
    assert BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER).retriable
    assert not BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED).retriable


def test_error_codes_of_newer_brokers_are_reported_as_unknown() -> None:
    assert BrokerError(9999).code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_errors_have_advice_where_possible() -> None:
    assert BrokerError(ErrorCode.FENCED_INSTANCE_ID).what_to_do == (
        "close this consumer; give each its own group_instance_id"
    )
    assert GaveUp(BrokerError(ErrorCode.NOT_ENOUGH_REPLICAS), 5).what_to_do is not None
    assert BrokerError(ErrorCode.UNKNOWN_SERVER_ERROR).what_to_do is None


def test_a_cluster_that_cannot_be_reached_names_each_address_with_its_reason() -> None:
    error = CannotReachCluster(
        {
            Address("a", 1): NetworkFailed("cannot connect to a:1: Connection refused"),
            Address("b", 2): BrokerError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        }
    )
    assert str(error) == (
        "cannot connect to a:1: Connection refused; b:2: not allowed on this cluster (CLUSTER_AUTHORIZATION_FAILED)"
    )


@pytest.mark.parametrize(
    "error",
    [
        BrokerError(ErrorCode.PRODUCER_FENCED, "because", "t-1"),
        FatalTransactionError(ErrorCode.INVALID_PRODUCER_EPOCH),
        GaveUp(NetworkFailed("gone"), 3.0),
        NoOffsetForPartition("nothing committed", {P0: None}),
        LogTruncation("cut", {P0: 5}, {P0: 3}),
        CannotReachCluster({Address("a", 1): NetworkFailed("gone")}),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel_between_processes(error: ClientError) -> None:
    for copied in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(copied) is type(error)
        assert (str(copied), copied.code) == (str(error), error.code)
