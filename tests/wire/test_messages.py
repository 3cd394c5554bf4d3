"""Every message in every version, against itself, against Kafka's bytes, and what the classes know."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from random import Random

import pytest

from cordwood.wire.codec import decode, encode, encode_parts
from cordwood.wire.diagnosis import read_slowly
from cordwood.wire.errors import ErrorCode
from cordwood.wire.layout import message_layout
from cordwood.wire.messages import (
    coordinator_key_class,
    coordinator_value_class,
    index,
    message_class,
    metadata_record_class,
    request_class,
    response_class,
)
from cordwood.wire.messages.api_versions import ApiVersionsResponse
from cordwood.wire.messages.broker_registration import BrokerRegistrationRequest
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription
from cordwood.wire.messages.fetch import FetchRequest, FetchResponse
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.metadata import MetadataRequest, MetadataResponse
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from cordwood.wire.primitives import ZERO_UUID
from cordwood.wire.schema import Versions
from tests.wire.message_values import ALL_MESSAGES, random_message

ROUNDS = 6


@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_a_message_comes_back_as_it_was_in_every_version(name: str) -> None:
    cls = message_class(name)
    for version in cls.versions:
        layout = message_layout(cls, version)
        random = Random(f"{name} {version}")
        for message in [cls(), *(random_message(name, version, random) for _ in range(ROUNDS))]:
            data = encode(message, version)
            assert decode(cls, version, data) == message
            assert decode(cls, version, memoryview(data)) == message
            assert decode(cls, version, bytearray(data)) == message
            assert read_slowly(layout, data, 0, len(data), strict=True) == (message, len(data))
            assert b"".join(encode_parts(message, version)) == data  # type: ignore[arg-type]  # all parts are bytes here


@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_no_prefix_of_a_message_is_mistaken_for_the_message(name: str) -> None:
    cls = message_class(name)
    for version in cls.versions:
        data = encode(random_message(name, version, Random(f"{name} {version}")), version)
        for cut in {0, len(data) // 3, len(data) // 2, len(data) - 1} - {len(data), -1}:
            with pytest.raises(Exception, match=f"{name} version {version}.* at byte"):
                decode(cls, version, data[:cut])


def test_there_are_89_apis_and_every_message_of_the_facts() -> None:
    assert len(index.APIS) == 89
    assert len(ALL_MESSAGES) == 272


def test_lookups_find_requests_responses_and_records_by_their_numbers() -> None:
    assert request_class(0) is ProduceRequest
    assert response_class(0) is ProduceResponse
    assert metadata_record_class(2).__name__ == "TopicRecord"
    assert metadata_record_class(0, "storage").__name__ == "RemoteLogSegmentMetadataRecord"
    assert coordinator_key_class("group", 1).__name__ == "OffsetCommitKey"
    assert coordinator_value_class("transaction", 0).__name__ == "TransactionLogValue"
    assert message_class("FetchRequest") is FetchRequest
    with pytest.raises(KeyError):
        request_class(4)


def test_a_class_knows_its_api_its_versions_and_its_listeners() -> None:
    assert ProduceRequest.api_key == ProduceResponse.api_key == 0
    assert ProduceRequest.versions == Versions(3, 13)
    assert 8 not in ProduceRequest.flexible_versions
    assert 9 in ProduceRequest.flexible_versions
    assert FetchRequest.listeners == ("broker", "controller")
    assert FetchRequest.response is FetchResponse
    assert list(BrokerRegistrationRequest.versions) == [0, 1, 2, 3, 4]


def test_a_class_attribute_does_not_hide_a_field_of_the_same_name() -> None:
    request = BrokerRegistrationRequest(listeners=[])
    assert request.listeners == []
    assert type(request).listeners == ("controller",)


def test_an_unstable_version_is_valid_but_not_among_the_stable_ones() -> None:
    assert InitProducerIdRequest.latest_version_unstable
    assert 6 in InitProducerIdRequest.versions
    assert 6 not in InitProducerIdRequest.stable_versions
    assert FetchRequest.stable_versions == FetchRequest.versions


def test_header_versions_follow_flexible_versions_except_for_the_api_versions_response() -> None:
    assert [ProduceRequest.header_version(version) for version in (8, 9)] == [1, 2]
    assert [ProduceResponse.header_version(version) for version in (8, 9)] == [0, 1]
    assert [ApiVersionsResponse.header_version(version) for version in (0, 3, 4)] == [0, 0, 0]


def test_fields_have_the_defaults_of_the_schema() -> None:
    request = FetchRequest()
    assert request.replica_id == -1
    assert request.max_bytes == 0x7FFF_FFFF
    assert request.cluster_id is None
    assert request.topics == []
    assert request.replica_state.replica_epoch == -1
    assert TopicProduceData().topic_id == ZERO_UUID


def test_lists_and_structs_of_defaults_are_not_shared() -> None:
    one, other = FetchRequest(), FetchRequest()
    one.replica_state.replica_id = 5
    assert other.replica_state.replica_id == -1
    assert one.topics is not other.topics
    decoded = [decode(FetchRequest, 16, encode(FetchRequest(), 16)) for _ in range(2)]
    decoded[0].replica_state.replica_id = 5
    assert decoded[1].replica_state.replica_id == -1


def test_equality_is_by_value_and_class() -> None:
    assert ProduceRequest(acks=1) == ProduceRequest(acks=1)
    assert ProduceRequest(acks=1) != ProduceRequest(acks=0)
    assert MetadataRequest() != MetadataResponse()
    assert PartitionProduceData(records=b"x") == PartitionProduceData(records=memoryview(b"x"))


def test_a_constructor_refuses_names_that_are_not_fields() -> None:
    with pytest.raises(TypeError, match="akcs"):
        ProduceRequest(akcs=1)  # type: ignore[call-arg]  # the type checker sees it too
    with pytest.raises(AttributeError):
        ProduceRequest().akcs = 1  # type: ignore[attr-defined]  # and here


def test_the_repr_reads_like_the_constructor_and_does_not_spill_records() -> None:
    partition = PartitionProduceData(index=3, records=b"x" * 1000)
    assert repr(partition) == "PartitionProduceData(index=3, records=<1000 bytes>)"
    assert repr(ConsumerProtocolSubscription(topics=["a"])).startswith("ConsumerProtocolSubscription(topics=['a'], ")


def test_messages_can_be_copied_and_pickled() -> None:
    request = FetchRequest(rack_id="r", unknown_tags=((99, b"x"),))
    assert copy.deepcopy(request) == request
    assert pickle.loads(pickle.dumps(request)) == request


def test_importing_the_package_imports_no_api_and_importing_an_api_compiles_nothing() -> None:
    code = """
import sys, cordwood.wire.messages as messages
assert not [name for name in sys.modules if name.startswith("cordwood.wire.messages.") and name[23:] != "index"]
from cordwood.wire.messages.fetch import FetchRequest, FetchTopic
assert "cordwood.wire.codec" not in sys.modules
assert "cordwood.wire.messages.produce" not in sys.modules
assert FetchRequest._decoders == FetchRequest._encoders == {}
assert "__init__" not in vars(FetchRequest)
messages.request_class(0)
assert "cordwood.wire.messages.produce" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_error_codes_know_which_are_worth_a_retry() -> None:
    assert ErrorCode(0) is ErrorCode.NONE
    assert ErrorCode(3) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert ErrorCode.NOT_LEADER_OR_FOLLOWER.retriable
    assert not ErrorCode.UNKNOWN_SERVER_ERROR.retriable
    assert ErrorCode.of(31_000) is ErrorCode.UNKNOWN_SERVER_ERROR
