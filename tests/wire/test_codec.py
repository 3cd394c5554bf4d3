"""The rules of the encoding, one by one, and what the codec says when they are broken."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cordwood.wire.codec import decode, encode, encode_parts
from cordwood.wire.exceptions import DecodeError, EncodeError, UnsupportedRequest, UnsupportedVersion
from cordwood.wire.frames import (
    decode_coordinator_key,
    decode_coordinator_value,
    decode_metadata_record,
    decode_request,
    decode_response,
    encode_coordinator_key,
    encode_coordinator_value,
    encode_metadata_record,
    encode_request,
    encode_request_parts,
    encode_response,
    encode_response_parts,
)
from cordwood.wire.messages.api_versions import ApiVersionsResponse
from cordwood.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, RequestCursor
from cordwood.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, FetchTopic, PartitionData
from cordwood.wire.messages.group_records.consumer_group_member_metadata import ConsumerGroupMemberMetadataValue
from cordwood.wire.messages.group_records.offset_commit import OffsetCommitKey, OffsetCommitValue
from cordwood.wire.messages.headers import RequestHeader
from cordwood.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from cordwood.wire.messages.sasl_handshake import SaslHandshakeRequest
from cordwood.wire.schema import Message, Struct, array, string


class FileRange:
    """A stand-in for bytes on disk: it has a length and nothing else."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length


class Nobody(Struct):
    """Takes no bytes in version 0."""

    name: str = string("1+")


class Crowd(Message, versions="0-1", flexible="none"):
    crowd: list[Nobody] = array(Nobody, "0+")


def produce(records: Any) -> ProduceRequest:
    partition = PartitionProduceData(index=1, records=records)
    return ProduceRequest(acks=-1, topic_data=[TopicProduceData(name="t", partition_data=[partition])])


def fetched(*records: Any) -> FetchResponse:
    partitions = [PartitionData(partition_index=index, records=item) for index, item in enumerate(records)]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=partitions)])


# ---- what the bytes look like


def test_a_plain_version_has_int16_strings_and_int32_counts() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="ab")], allow_auto_topic_creation=True)
    assert encode(request, 8).hex() == "00000001" + "00026162" + "010000"


def test_a_flexible_version_has_compact_forms_and_tag_sections() -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="ab")], allow_auto_topic_creation=True)
    assert encode(request, 9).hex() == "02" + "036162" + "00" + "010000" + "00"


def test_null_is_minus_one_or_in_compact_form_zero() -> None:
    assert encode(MetadataRequest(topics=None), 8).hex() == "ffffffff" + "010000"
    assert encode(MetadataRequest(topics=None), 9).hex() == "00" + "010000" + "00"


def test_lengths_from_127_on_take_more_than_one_byte_in_compact_form() -> None:
    for length in (126, 127, 128, 16_383, 32_767):
        request = HeartbeatRequest(group_id="x" * length, generation_id=1)
        data = encode(request, 4)
        assert decode(HeartbeatRequest, 4, data) == request
        assert len(data) == length + (1 if length < 127 else 2 if length < 16_383 else 3) + 7


def test_the_client_id_keeps_its_int16_length_in_the_flexible_header() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=9, correlation_id=1, client_id="ab")
    assert encode(header, 2).hex() == "0003" + "0009" + "00000001" + "00026162" + "00"


def test_a_nullable_struct_is_marked_by_minus_one_or_one() -> None:
    absent = encode(DescribeTopicPartitionsRequest(cursor=None), 0)
    assert absent.hex().endswith("ff" + "00")
    present = encode(DescribeTopicPartitionsRequest(cursor=RequestCursor(topic_name="t", partition_index=2)), 0)
    assert present.hex().endswith("01" + "0274" + "00000002" + "00" + "00")


def test_a_nullable_struct_in_a_tagged_field_is_marked_by_zero_or_one() -> None:
    value = ConsumerGroupMemberMetadataValue(classic_member_metadata=None)
    data = encode(value, 0)
    assert data.hex().endswith("01" + "00" + "01" + "00")
    assert decode(ConsumerGroupMemberMetadataValue, 0, data).classic_member_metadata is None


def test_a_tagged_field_is_written_only_when_it_is_not_its_default() -> None:
    assert encode(FetchRequest(cluster_id="c"), 12).hex().endswith("01" + "00" + "02" + "0263")
    assert encode(FetchRequest(), 12).hex().endswith("00")


def test_unknown_tags_are_kept_and_written_among_the_known_ones_in_order() -> None:
    request = FetchRequest(cluster_id="c", unknown_tags=((1, b"one"), (9, b"")))
    data = encode(request, 12)
    assert data.hex().endswith("03" + "00020263" + "0103" + b"one".hex() + "0900")
    assert decode(FetchRequest, 12, data) == request


def test_fields_that_a_version_lacks_are_read_as_their_defaults() -> None:
    request = decode(FetchRequest, 4, encode(FetchRequest(max_wait_ms=5), 4))
    assert request.session_epoch == -1
    assert request.rack_id == ""
    assert request.forgotten_topics_data == []
    assert request == FetchRequest(max_wait_ms=5)


# ---- records


def test_records_are_views_into_the_frame_not_copies() -> None:
    data = encode(produce(b"batch"), 9)
    for source in (data, bytearray(data), memoryview(data)):
        records = decode(ProduceRequest, 9, source).topic_data[0].partition_data[0].records
        assert isinstance(records, memoryview)
        assert bytes(records) == b"batch"
        assert records.obj is (source.obj if isinstance(source, memoryview) else source)


def test_records_stay_the_same_object_in_parts_and_the_rest_is_joined() -> None:
    one, two = FileRange(1000), FileRange(2000)
    parts = encode_parts(fetched(one, two), 12)
    assert [type(part).__name__ for part in parts] == ["bytes", "FileRange", "bytes", "FileRange", "bytes"]
    assert parts[1] is one
    assert parts[3] is two


def test_bytes_as_records_are_forwarded_as_a_view_and_not_joined() -> None:
    batch = b"x" * 100
    parts = encode_parts(fetched(batch), 12)
    assert isinstance(parts[1], memoryview)
    assert parts[1].obj is batch
    assert b"".join(parts) == encode(fetched(batch), 12)  # type: ignore[arg-type]  # all parts are bytes here


def test_a_file_range_cannot_be_encoded_into_one_piece() -> None:
    refusal = r"FetchResponse\.responses\[0\]\.partitions\[0\]\.records: .*encode_parts"
    with pytest.raises(EncodeError, match=refusal):
        encode(fetched(FileRange(5)), 12)
    with pytest.raises(EncodeError, match=refusal):
        encode_response(fetched(FileRange(5)), 12, 1)


# ---- what cannot be written


def test_a_value_that_a_version_cannot_express_is_named_with_its_field_and_version() -> None:
    request = HeartbeatRequest(group_id="g", group_instance_id="i")
    assert encode(HeartbeatRequest(group_id="g"), 2)
    with pytest.raises(UnsupportedVersion) as refusal:
        encode(request, 2)
    assert str(refusal.value) == (
        "HeartbeatRequest.group_instance_id: version 2 has no such field (it has 3+), so 'i' cannot be written"
    )


def test_an_ignorable_field_is_omitted_where_the_version_lacks_it() -> None:
    assert encode(FetchRequest(rack_id="r"), 4) == encode(FetchRequest(), 4)


def test_the_path_to_a_refused_value_goes_through_arrays() -> None:
    topics = [FetchTopic(), FetchTopic(partitions=["no"])]  # type: ignore[list-item]  # that is the point
    with pytest.raises(EncodeError, match=r"FetchRequest\.topics\[1\]\.partitions\[0\]: 'no' is not a FetchPartition"):
        encode(FetchRequest(topics=topics), 12)


def test_unknown_tags_cannot_be_written_in_a_version_without_tags() -> None:
    with pytest.raises(UnsupportedVersion, match="unknown_tags: version 8 has no tagged fields"):
        encode(MetadataRequest(unknown_tags=((5, b"x"),)), 8)


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnsupportedVersion, match="no version 99; its versions are 4-18"):
        encode(FetchRequest(), 99)
    with pytest.raises(UnsupportedVersion, match="no version 3; its versions are 4-18"):
        decode(FetchRequest, 3, b"")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"max_wait_ms": 1 << 31}, "max_wait_ms: 2147483648 is not int32"),
        ({"max_wait_ms": "5"}, "max_wait_ms: '5' is not int32"),
        ({"rack_id": None}, "rack_id: None, but this field is not nullable"),
        ({"rack_id": b"r"}, "rack_id: b'r' is not a string"),
        ({"rack_id": "\ud800"}, "rack_id: .* is not UTF-8"),
        ({"rack_id": "x" * 32_768}, "rack_id: a string of 32768 bytes; 32767 is the maximum"),
        ({"topics": None}, "topics: None, but this field is not nullable"),
        ({"topics": 5}, "topics: 5 is not a list"),
        ({"topics": [FetchTopic(topic_id=b"short")]}, r"topics\[0\].topic_id: b'short' is not the 16 bytes of a uuid"),
        ({"unknown_tags": ((1, b""), (1, b""))}, "unknown_tags: tag 1 twice"),
        ({"cluster_id": "c", "unknown_tags": ((0, b""),)}, "unknown_tags: tag 0 twice, or also a known field"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(EncodeError, match=r"FetchRequest\." + reason):
        encode(FetchRequest(**values), 13)


# ---- what cannot be read


def refused(cls: Any, version: int, data_hex: str) -> str:
    data = bytes.fromhex(data_hex)
    with pytest.raises(DecodeError) as of_bytes:
        decode(cls, version, data)
    with pytest.raises(DecodeError) as of_view:
        decode(cls, version, memoryview(data))
    assert str(of_bytes.value) == str(of_view.value)
    return str(of_bytes.value)


@pytest.mark.parametrize(
    ("version", "data_hex", "reason"),
    [
        (9, "", "topics at byte 0: 1 bytes expected, 0 are left"),
        (9, "02", "topics at byte 0: 1 elements where 0 bytes are left"),
        (9, "ffffffff0f" + "00" * 8, "topics at byte 0: 4294967294 elements where 8 bytes are left"),
        (9, "ffffffff1f" + "00" * 8, "topics at byte 0: an unsigned varint of more than 32 bits"),
        (8, "7fffffff" + "00" * 8, "topics at byte 0: 2147483647 elements where 8 bytes are left"),
        (8, "fffffffe" + "010000", "topics at byte 0: a length of -2"),
        (8, "00000001" + "ffff" + "010000", r"topics\[0\].name at byte 4: null, but this field is not nullable"),
        (8, "00000001" + "000561", r"topics\[0\].name at byte 4: a length of 5 where 1 bytes are left"),
        (9, "02" + "00" + "00" + "010000" + "00", r"topics\[0\].name at byte 1: null, but this field is not nullable"),
        (9, "02" + "0361ff" + "00" + "010000" + "00", r"topics\[0\].name at byte 3: not UTF-8: invalid start byte"),
        (
            9,
            "02" + "1461" + "00" + "010000" + "00",
            r"topics\[0\].name at byte 1: a length of 19 where 6 bytes are left",
        ),
        (9, "01" + "020000" + "00", "allow_auto_topic_creation at byte 1: 2 is not a boolean"),
        (9, "01" + "010000" + "0201000100", "tagged fields at byte 7: tag 1 after tag 1"),
        (9, "01" + "010000" + "0202000100", "tagged fields at byte 7: tag 1 after tag 2"),
        (9, "01" + "010000" + "010105", "tagged fields at byte 6: 5 bytes of tag 1 where 0 are left"),
        (9, "01" + "010000" + "7f0105", "tagged fields at byte 4: 127 tagged fields in 2 bytes"),
        (9, "01" + "010000" + "00" + "00", "at byte 5: 1 bytes left over after the message"),
    ],
)
def test_bad_bytes_are_refused_by_field_and_byte(version: int, data_hex: str, reason: str) -> None:
    dot = " " if reason.startswith("at") else r"\."
    assert re.match(f"MetadataRequest version {version}{dot}{reason}", refused(MetadataRequest, version, data_hex))


def test_a_known_tagged_field_must_end_where_its_length_says() -> None:
    good = encode(FetchRequest(cluster_id="c"), 12).hex()
    assert good.endswith("01" + "00" + "02" + "0263")
    assert "cluster_id" in refused(FetchRequest, 12, good[:-8] + "00" + "03" + "0263" + "00")
    assert "cluster_id" in refused(FetchRequest, 12, good[:-8] + "00" + "01" + "0263")


def test_a_nullable_struct_takes_no_other_mark() -> None:
    good = encode(DescribeTopicPartitionsRequest(cursor=None), 0).hex()
    assert "cursor at byte 5: 2 where -1" in refused(DescribeTopicPartitionsRequest, 0, good[:-4] + "0200")


def test_a_compact_string_of_more_than_32767_bytes_is_refused_though_its_bytes_are_there() -> None:
    body = "818002" + "61" * 32_768 + "00000000" + "01" + "00" + "00"
    assert "group_id at byte 0: a string of 32768 bytes" in refused(HeartbeatRequest, 4, body)


def test_trailing_bytes_are_accepted_when_not_strict() -> None:
    data = encode(MetadataRequest(), 9) + b"more"
    assert decode(MetadataRequest, 9, data, strict=False) == MetadataRequest()
    with pytest.raises(DecodeError, match="4 bytes left over"):
        decode(MetadataRequest, 9, data)


def test_a_string_that_runs_past_the_end_is_refused_also_when_not_strict() -> None:
    with pytest.raises(DecodeError, match="mechanism at byte 0: a length of 9 where 1 bytes are left"):
        decode(SaslHandshakeRequest, 0, bytes.fromhex("000961"), strict=False)


def test_a_count_of_elements_without_bytes_is_bounded_too() -> None:
    with pytest.raises(DecodeError, match="crowd at byte 0: 2147483647 elements where 0 bytes are left"):
        decode(Crowd, 0, bytes.fromhex("7fffffff"))


# ---- frames


@pytest.mark.parametrize("version", [8, 9])
def test_a_request_frame_is_its_size_its_header_and_its_body(version: int) -> None:
    frame = encode_request(produce(b"batch"), version, 77, "me")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    header, request = decode_request(frame[4:])
    assert (header.request_api_key, header.request_api_version) == (0, version)
    assert (header.correlation_id, header.client_id) == (77, "me")
    assert request == produce(b"batch")
    parts = encode_request_parts(produce(b"batch"), version, 77, "me")
    assert b"".join(parts) == frame  # type: ignore[arg-type]  # all parts are bytes here


@pytest.mark.parametrize("version", [0, 3, 4])
def test_a_response_frame_is_its_size_its_header_and_its_body(version: int) -> None:
    response = HeartbeatResponse(error_code=27)
    frame = encode_response(response, version, -5)
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert decode_response(HeartbeatResponse, version, frame[4:]) == (-5, response)


def test_an_api_versions_response_has_the_oldest_header_in_every_version() -> None:
    frame = encode_response(ApiVersionsResponse(error_code=35), 3, 1)
    assert frame[4:10].hex() == "00000001" + "0023"


def test_the_size_of_a_response_in_parts_counts_its_file_ranges() -> None:
    parts = encode_response_parts(fetched(FileRange(1000)), 12, 1)
    assert isinstance(parts[0], bytes)
    assert int.from_bytes(parts[0][:4], "big") == sum(map(len, parts)) - 4


def test_an_unknown_api_or_version_error_has_all_that_a_response_needs() -> None:
    frame = bytes.fromhex("0012" + "0063" + "00000007" + "ffff" + "00")
    with pytest.raises(UnsupportedRequest, match="no version 99 of ApiVersionsRequest; its versions are 0-") as error:
        decode_request(frame)
    assert (error.value.api_key, error.value.api_version, error.value.correlation_id) == (18, 99, 7)
    with pytest.raises(UnsupportedRequest, match="no API with key 4"):
        decode_request(bytes.fromhex("0004" + "0000" + "00000007" + "ffff"))


def test_a_request_is_refused_by_the_part_that_is_wrong() -> None:
    frame = encode_request(MetadataRequest(), 9, 1, "me")[4:]
    with pytest.raises(DecodeError, match=r"RequestHeader version 2\.client_id at byte 8"):
        decode_request(frame[:9])
    with pytest.raises(DecodeError, match=r"MetadataRequest version 9\.tagged fields at byte 17"):
        decode_request(frame[:-1])
    with pytest.raises(DecodeError, match="RequestHeader"):
        decode_request(b"")
    assert decode_request(frame + b"x")[1] == MetadataRequest()
    with pytest.raises(DecodeError, match="left over"):
        decode_request(frame + b"x", strict=True)


def test_a_metadata_record_has_frame_version_key_and_version_before_it() -> None:
    record = TopicRecord(name="t", topic_id=bytes(range(16)))
    data = encode_metadata_record(record, 0)
    assert data.hex().startswith("010200" + "0274")
    assert decode_metadata_record(data) == (record, 0)
    with pytest.raises(DecodeError, match="frame version 2, not 1"):
        decode_metadata_record(b"\x02" + data[1:])
    with pytest.raises(DecodeError, match="left over"):
        decode_metadata_record(data + b"x")
    with pytest.raises(DecodeError, match="no record with key 99"):
        decode_metadata_record(bytes([1, 99, 0]))
    with pytest.raises(DecodeError, match="there is no version 9"):
        decode_metadata_record(bytes([1, 2, 9]))
    with pytest.raises(DecodeError, match="no frame version"):
        decode_metadata_record(b"\x01")


def test_a_coordinators_key_has_its_type_before_it_and_its_value_its_version() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    value = OffsetCommitValue(offset=5, metadata="m")
    assert encode_coordinator_key(key).hex().startswith("0001" + "000167")
    assert decode_coordinator_key("group", encode_coordinator_key(key)) == key
    assert encode_coordinator_value(value, 3).hex().startswith("0003")
    assert decode_coordinator_value("group", 1, encode_coordinator_value(value, 3)) == (value, 3)
    with pytest.raises(DecodeError, match="no record type 99"):
        decode_coordinator_key("group", b"\x00\x63")
    with pytest.raises(DecodeError, match="there is no version 77"):
        decode_coordinator_value("group", 1, b"\x00\x4d")
    with pytest.raises(DecodeError, match="2 bytes expected"):
        decode_coordinator_value("group", 1, b"")
