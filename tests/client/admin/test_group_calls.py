"""Groups and their offsets, as reported by brokers of both generations."""

from struct import pack
from typing import Any

import pytest

from cordwood.client.admin.groups import describe_groups, list_groups
from cordwood.client.admin.offsets import (
    alter_group_offsets,
    delete_group_offsets,
    list_group_offsets,
)
from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BrokerError, UnsupportedByBroker
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.wire.codec import encode
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages import consumer_group_describe
from cordwood.wire.messages import describe_groups as classic_describe
from cordwood.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from cordwood.wire.messages.data import consumer_protocol_assignment
from cordwood.wire.messages.data.consumer_protocol_assignment import ConsumerProtocolAssignment
from cordwood.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from cordwood.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from cordwood.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from cordwood.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from cordwood.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tests.client.scripted_broker import client_of, scripted_brokers
from tests.client.scripted_coordinators import Coordinators, run

P0 = TopicPartition("t", 0)
ABSENT = -1
"""The newest version of an API that a broker does not have."""


def test_all_brokers_are_asked_for_their_groups() -> None:
    async def main() -> None:
        async with scripted_brokers(2) as brokers:
            loading = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]

            def second(request: ListGroupsRequest, version: int) -> ListGroupsResponse:
                if loading:
                    return ListGroupsResponse(error_code=loading.pop())
                return ListGroupsResponse(
                    groups=[ListedGroup(group_id="a", group_state="Empty", group_type="Consumer")]
                )

            brokers[0].answers[ListGroupsRequest.api_key] = lambda request, version: ListGroupsResponse(
                groups=[ListedGroup(group_id="b", protocol_type="consumer", group_state="Stable", group_type="classic")]
            )
            brokers[1].answers[ListGroupsRequest.api_key] = second
            async with await client_of(brokers[0].address) as client:
                listed = await list_groups(client, states=["Stable", "Empty"], kinds=["classic", "consumer"])
            assert [(group.id, group.kind, group.state, group.coordinator) for group in listed] == [
                ("a", "consumer", "Empty", 2),
                ("b", "classic", "Stable", 1),
            ]
            request, *_ = brokers[0].seen_of(ListGroupsRequest)
            assert (request.states_filter, request.types_filter) == (["Empty", "Stable"], ["classic", "consumer"])

    run(main())


def test_a_broker_without_group_types_has_classic_groups() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[ListGroupsRequest.api_key] = 4
            broker.answers[ListGroupsRequest.api_key] = lambda request, version: ListGroupsResponse(
                groups=[ListedGroup(group_id="a", group_state="Empty")]
            )
            async with await client_of(broker.address) as client:
                assert [group.kind for group in await list_groups(client, kinds=["classic"])] == ["classic"]
                assert await list_groups(client, kinds=["consumer"]) == []

    run(main())


def test_a_broker_without_the_state_filter_is_reported_as_too_old() -> None:
    async def main() -> None:
        async with scripted_brokers() as [broker]:
            broker.max_versions[ListGroupsRequest.api_key] = 3
            async with await client_of(broker.address) as client:
                with pytest.raises(UnsupportedByBroker):
                    await list_groups(client, states=["Empty"])

    run(main())


def classic_group(assignment: bytes) -> classic_describe.DescribedGroup:
    member = classic_describe.DescribedGroupMember(
        member_id="m", client_id="c", client_host="/10.0.0.1", member_assignment=assignment
    )
    return classic_describe.DescribedGroup(
        group_id="old", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )


def assignment_bytes(version: int, *partitions: int) -> bytes:
    topic = consumer_protocol_assignment.TopicPartition(topic="t", partitions=list(partitions))
    assignment = ConsumerProtocolAssignment(assigned_partitions=[topic], user_data=None)
    return pack(">h", version) + encode(assignment, min(version, 3))


def test_a_group_is_described_by_the_protocol_that_it_speaks() -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            new = consumer_group_describe.DescribedGroup(group_id="new", group_state="Stable", group_epoch=7)
            old = consumer_group_describe.DescribedGroup(group_id="old", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
            brokers[0].answers[ConsumerGroupDescribeRequest.api_key] = lambda request, version: (
                ConsumerGroupDescribeResponse(groups=[new, old])
            )
            brokers[0].answers[DescribeGroupsRequest.api_key] = lambda request, version: DescribeGroupsResponse(
                groups=[classic_group(assignment_bytes(0, 1, 0))]
            )
            async with await client_of(brokers[0].address) as client:
                described = await describe_groups(client, ["new", "old"])
            found = [one for one in described.values() if not isinstance(one, BrokerError)]
            assert [(one.id, one.kind, one.epoch) for one in found] == [
                ("new", "consumer", 7),
                ("old", "classic", None),
            ]
            (member,) = found[1].members
            assert (member.host, member.assignment) == ("10.0.0.1", (P0, TopicPartition("t", 1)))
            (request,) = brokers[0].seen_of(DescribeGroupsRequest)
            assert request.groups == ["old"]

    run(main())


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        (b"", ()),
        (assignment_bytes(3, 0), (P0,)),
        (assignment_bytes(9, 0) + b"what version 9 adds", (P0,)),
        (b"\0", None),
        (b"\0\0\0\0\xff", None),
    ],
    ids=["none", "version 3", "newer", "too short", "cut"],
)
def test_an_assignment_is_read_as_far_as_it_can_be(assignment: bytes, expected: Any) -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].max_versions[ConsumerGroupDescribeRequest.api_key] = ABSENT
            brokers[0].answers[DescribeGroupsRequest.api_key] = lambda request, version: DescribeGroupsResponse(
                groups=[classic_group(assignment)]
            )
            async with await client_of(brokers[0].address) as client:
                described = (await describe_groups(client, ["old"]))["old"]
            assert not isinstance(described, BrokerError)
            assert described.members[0].assignment == expected

    run(main())


def test_a_dead_group_of_an_older_broker_does_not_exist() -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].max_versions |= {ConsumerGroupDescribeRequest.api_key: ABSENT, DescribeGroupsRequest.api_key: 5}
            brokers[0].answers[DescribeGroupsRequest.api_key] = lambda request, version: DescribeGroupsResponse(
                groups=[classic_describe.DescribedGroup(group_id="a", group_state="Dead")]
            )
            async with await client_of(brokers[0].address) as client:
                described = (await describe_groups(client, ["a"]))["a"]
            assert isinstance(described, BrokerError)
            assert described.code == ErrorCode.GROUP_ID_NOT_FOUND

    run(main())


# ---- offsets


def test_offsets_of_several_groups_are_fetched_at_once() -> None:
    async def main() -> None:
        def fetch(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
            assert version == 9, "the last version that says a topic's name"
            partitions = [
                OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, metadata="m"),
                OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1, metadata=""),
            ]
            return OffsetFetchResponse(
                groups=[
                    OffsetFetchResponseGroup(
                        group_id=group.group_id,
                        topics=[OffsetFetchResponseTopics(name="t", partitions=partitions)],
                    )
                    for group in request.groups
                ]
            )

        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].answers[OffsetFetchRequest.api_key] = fetch
            async with await client_of(brokers[0].address) as client:
                fetched = await list_group_offsets(client, ["a", "b"], require_stable=True)
            assert fetched == {"a": {P0: OffsetAndMetadata(5, "m")}, "b": {P0: OffsetAndMetadata(5, "m")}}
            (request,) = brokers[0].seen_of(OffsetFetchRequest)
            assert request.require_stable
            assert [group.topics for group in request.groups] == [None, None]

    run(main())


def test_an_older_broker_is_asked_for_one_groups_offsets_at_a_time() -> None:
    async def main() -> None:
        def fetch(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
            partition = OffsetFetchResponsePartition(partition_index=0, committed_offset=len(request.group_id))
            return OffsetFetchResponse(topics=[OffsetFetchResponseTopic(name="t", partitions=[partition])])

        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].max_versions[OffsetFetchRequest.api_key] = 7
            brokers[0].answers[OffsetFetchRequest.api_key] = fetch
            async with await client_of(brokers[0].address) as client:
                fetched = await list_group_offsets(client, ["a", "bb"])
            assert fetched == {"a": {P0: OffsetAndMetadata(1)}, "bb": {P0: OffsetAndMetadata(2)}}

    run(main())


def test_offsets_that_a_transaction_is_still_writing_are_waited_for() -> None:
    async def main() -> None:
        errors = [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NONE]

        def fetch(request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
            told = OffsetFetchResponsePartitions(partition_index=0, committed_offset=5, error_code=errors.pop(0))
            topic = OffsetFetchResponseTopics(name="t", partitions=[told])
            return OffsetFetchResponse(groups=[OffsetFetchResponseGroup(group_id="a", topics=[topic])])

        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].answers[OffsetFetchRequest.api_key] = fetch
            async with await client_of(brokers[0].address) as client:
                assert await list_group_offsets(client, ["a"], require_stable=True) == {"a": {P0: OffsetAndMetadata(5)}}

    run(main())


def test_each_offset_has_a_result_and_a_lost_coordinator_is_retried() -> None:
    async def main() -> None:
        codes = [[ErrorCode.NOT_COORDINATOR] * 2, [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]]

        def commit(request: OffsetCommitRequest, version: int) -> OffsetCommitResponse:
            assert version == 9, "the last version that says a topic's name"
            partitions = [
                OffsetCommitResponsePartition(partition_index=number, error_code=code)
                for number, code in enumerate(codes.pop(0))
            ]
            return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])

        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].answers[OffsetCommitRequest.api_key] = commit
            async with await client_of(brokers[0].address) as client:
                offsets = {P0: OffsetAndMetadata(7), TopicPartition("t", 1): OffsetAndMetadata(8, "m", 3)}
                results = await alter_group_offsets(client, "g", offsets)
            assert [result and result.code for result in results.values()] == [None, ErrorCode.UNKNOWN_MEMBER_ID]
            first, second = brokers[0].seen_of(OffsetCommitRequest)
            assert first == second
            assert (first.generation_id_or_member_epoch, first.member_id) == (-1, "")

    run(main())


def test_errors_of_the_whole_group_are_raised() -> None:
    async def main() -> None:
        async with scripted_brokers() as brokers:
            Coordinators(brokers)
            brokers[0].answers[OffsetDeleteRequest.api_key] = lambda request, version: OffsetDeleteResponse(
                error_code=ErrorCode.GROUP_ID_NOT_FOUND
            )
            async with await client_of(brokers[0].address) as client:
                with pytest.raises(BrokerError, match="group g: there is no such group"):
                    await delete_group_offsets(client, "g", [P0])

    run(main())
