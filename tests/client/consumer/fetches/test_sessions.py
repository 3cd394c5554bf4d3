"""Requests and state of a fetch session (KIP-227)."""

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.fetches.sessions import FetchSession, Wanted
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from cordwood.wire.primitives import ZERO_UUID, Uuid
from tests.client.fetched_data import P0, P1, TOPIC_ID

OTHER_ID = bytes(range(16, 32))


def wanted(offset: int = 0, topic_id: Uuid = TOPIC_ID, leader_epoch: int = 0) -> Wanted:
    return Wanted(topic_id, offset, leader_epoch, 1000)


def answer(*partitions: TopicPartition, session: int = 9, error: int = 0, topic_id: Uuid = TOPIC_ID) -> FetchResponse:
    told = [PartitionData(partition_index=partition.partition) for partition in partitions]
    topics = [FetchableTopicResponse(topic_id=topic_id, partitions=told)] if told else []
    return FetchResponse(session_id=session, error_code=error, responses=topics)


def said(request: FetchRequest) -> dict[tuple[Uuid, int], int]:
    return {
        (topic.topic_id, partition.partition): partition.fetch_offset
        for topic in request.topics
        for partition in topic.partitions
    }


def forgotten(request: FetchRequest) -> set[tuple[Uuid, int]]:
    return {(topic.topic_id, partition) for topic in request.forgotten_topics_data for partition in topic.partitions}


def begun(*partitions: TopicPartition) -> FetchSession:
    session = FetchSession()
    session.request(dict.fromkeys(partitions, wanted()))
    assert session.accept(answer(*partitions))
    return session


def test_the_first_request_says_everything() -> None:
    request = FetchSession().request({P0: wanted(), P1: wanted(5)})
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert said(request) == {(TOPIC_ID, 0): 0, (TOPIC_ID, 1): 5}


def test_later_requests_contain_only_changes() -> None:
    session = begun(P0, P1)
    request = session.request({P0: wanted(7), P1: wanted()})
    assert (request.session_id, request.session_epoch) == (9, 1)
    assert said(request) == {(TOPIC_ID, 0): 7}
    assert session.accept(answer(P0))
    assert session.request({P0: wanted(7), P1: wanted()}).session_epoch == 2


def test_removed_partitions_are_forgotten_and_may_return() -> None:
    session = begun(P0, P1)
    request = session.request({P0: wanted()})
    assert forgotten(request) == {(TOPIC_ID, 1)}
    assert said(request) == {}
    session.accept(answer())
    assert said(session.request({P0: wanted(), P1: wanted()})) == {(TOPIC_ID, 1): 0}


def test_a_recreated_topic_is_removed_by_its_old_id_and_added_by_its_new_one() -> None:
    session = begun(P0)
    request = session.request({P0: wanted(topic_id=OTHER_ID)})
    assert forgotten(request) == {(TOPIC_ID, 0)}
    assert said(request) == {(OTHER_ID, 0): 0}


def test_a_new_leader_epoch_is_said() -> None:
    assert said(begun(P0).request({P0: wanted(leader_epoch=1)})) == {(TOPIC_ID, 0): 0}


def test_a_broker_without_room_for_a_session_gets_full_requests() -> None:
    session = FetchSession()
    session.request({P0: wanted()})
    assert session.accept(answer(P0, session=0))
    request = session.request({P0: wanted()})
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert said(request) == {(TOPIC_ID, 0): 0}


def test_a_session_that_the_broker_has_forgotten_restarts() -> None:
    session = begun(P0)
    session.request({P0: wanted()})
    assert not session.accept(answer(error=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, session=0))
    request = session.request({P0: wanted()})
    assert (request.session_id, request.session_epoch) == (0, 0)
    assert said(request) == {(TOPIC_ID, 0): 0}


def test_a_session_that_is_out_of_step_is_closed_with_the_request_that_begins_the_next() -> None:
    session = begun(P0)
    session.request({P0: wanted()})
    assert not session.accept(answer(error=ErrorCode.INVALID_FETCH_SESSION_EPOCH, session=0))
    request = session.request({P0: wanted()})
    assert (request.session_id, request.session_epoch) == (9, 0)
    assert said(request) == {(TOPIC_ID, 0): 0}


def test_a_session_whose_answer_was_lost_is_closed() -> None:
    session = begun(P0)
    session.request({P0: wanted()})
    session.lost()
    request = session.request({P0: wanted()})
    assert (request.session_id, request.session_epoch) == (9, 0)


def test_a_response_about_unrequested_partitions_is_not_used() -> None:
    session = begun(P0)
    session.request({P0: wanted(1)})
    assert not session.accept(answer(P0, P1))


def test_a_first_answer_that_leaves_something_out_is_not_used() -> None:
    session = FetchSession()
    session.request({P0: wanted(), P1: wanted()})
    assert not session.accept(answer(P0))


def test_without_topic_ids_partitions_are_named_in_a_separate_session() -> None:
    session = begun(P0)
    request = session.request({P0: wanted(topic_id=ZERO_UUID)})
    assert not session.is_by_id
    assert request.session_epoch == 0
    assert [topic.topic for topic in request.topics] == ["t"]


def test_results_are_matched_by_name() -> None:
    session = begun(P0)
    session.request({P0: wanted()})
    assert [partition for partition, _ in session.answers(answer(P0))] == [P0]


def test_epochs_begin_again_after_the_largest() -> None:
    session = begun(P0)
    session._epoch = 2**31 - 1
    session.request({P0: wanted(1)})
    session.accept(answer(P0))
    assert session.request({P0: wanted(2)}).session_epoch == 1
