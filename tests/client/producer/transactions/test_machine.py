"""A transactional producer's machine: what it asks for, in which order, and how its transactions end."""

from math import inf

import pytest

from cordwood.client.consumer.group_metadata import GroupMetadata
from cordwood.client.errors import (
    BadSetting,
    NetworkFailed,
    TransactionAborted,
)
from cordwood.client.offset_types import OffsetAndMetadata
from cordwood.client.producer.identity import ProducerIdentity
from cordwood.client.producer.transactions.requests import To
from cordwood.client.producer.transactions.states import State
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from cordwood.wire.messages.init_producer_id import InitProducerIdRequest
from cordwood.wire.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.client.scripted_transactions import (
    GROUP,
    OFFSETS,
    P0,
    P1,
    PRODUCER_ID,
    Scripted,
    added,
    committed,
    partitions_of,
)

BOTH = pytest.mark.parametrize("version", [1, 2])


# ---- a transaction


def test_a_producer_begins_by_asking_its_coordinator_for_an_identity() -> None:
    scripted = Scripted()
    operation = scripted.machine.initialize()
    ask = scripted.ask()
    assert isinstance(ask.request, InitProducerIdRequest)
    assert (ask.to, ask.key) == (To.TRANSACTION_COORDINATOR, "id")
    assert (ask.request.transactional_id, ask.request.transaction_timeout_ms) == ("id", 60_000)
    assert (ask.request.producer_id, ask.request.producer_epoch) == (-1, -1)
    assert not operation.is_done
    scripted.answer(ask)
    operation.take()
    assert scripted.machine.identity == ProducerIdentity(PRODUCER_ID, 0)
    assert scripted.machine.state is State.READY


def test_version_1_adds_partitions_before_they_are_sent_to() -> None:
    scripted = Scripted(version=1).begun()
    machine = scripted.machine
    assert machine.add_partition(P1)
    assert machine.add_partition(P0)
    assert not machine.add_partition(P0)
    ask = scripted.ask(has_incomplete=True)
    assert partitions_of(ask) == [("t", [0, 1])]
    assert ask.at_most == 3
    assert not machine.may_send(P0)
    scripted.answer(ask)
    assert machine.may_send(P0)
    assert machine.may_send(P1)
    assert scripted.next_ask(has_incomplete=True) is None


def test_version_2_sends_at_once() -> None:
    scripted = Scripted(version=2).begun()
    assert not scripted.machine.add_partition(P0)
    assert scripted.machine.may_send(P0)
    assert scripted.next_ask(has_incomplete=True) is None


def test_version_1_uses_no_request_that_means_version_2() -> None:
    scripted = Scripted(version=1).written()
    scripted.machine.send_offsets(OFFSETS, GROUP)
    scripted.answer(scripted.ask())
    offsets = scripted.ask()
    scripted.answer(offsets)
    scripted.machine.commit()
    assert (offsets.at_most, scripted.ask().at_most, scripted.machine.produce_at_most) == (4, 4, 11)


def test_version_2_uses_none_that_means_version_1() -> None:
    scripted = Scripted(version=2).written()
    scripted.machine.send_offsets(OFFSETS, GROUP)
    offsets = scripted.ask()
    scripted.answer(offsets)
    scripted.machine.commit()
    assert (offsets.at_least, scripted.ask().at_least, scripted.machine.produce_at_most) == (5, 5, None)


@pytest.mark.parametrize(("version", "epoch"), [(1, 0), (2, 1)])
def test_a_commit_ends_the_transaction_and_version_2_has_a_new_epoch_then(version: int, epoch: int) -> None:
    scripted = Scripted(version=version).written()
    operation = scripted.machine.commit()
    ask = scripted.ask()
    assert isinstance(ask.request, EndTxnRequest)
    assert ask.request.committed
    assert (ask.request.producer_id, ask.request.producer_epoch) == (PRODUCER_ID, 0)
    scripted.answer(ask)
    operation.take()
    assert scripted.machine.state is State.READY
    assert scripted.machine.identity == ProducerIdentity(PRODUCER_ID, epoch)


def test_a_new_producer_id_is_taken_when_the_epochs_are_used_up() -> None:
    scripted = Scripted().written()
    scripted.machine.commit()
    scripted.machine.answered(scripted.ask(), EndTxnResponse(producer_id=2000, producer_epoch=0), 0)
    assert scripted.machine.identity == ProducerIdentity(2000, 0)


@BOTH
def test_a_transaction_is_ended_after_its_batches(version: int) -> None:
    scripted = Scripted(version=version).written()
    scripted.machine.commit()
    assert scripted.next_ask(has_incomplete=True) is None
    assert isinstance(scripted.ask().request, EndTxnRequest)


def test_partitions_and_offsets_are_added_before_a_commit_ends_it() -> None:
    scripted = Scripted(version=1).begun()
    scripted.asked.clear()
    scripted.machine.add_partition(P0)
    offsets = scripted.machine.send_offsets(OFFSETS, GROUP)
    commit = scripted.machine.commit()
    scripted.finish(commit)
    offsets.take()
    assert scripted.asked == ["AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"]


@BOTH
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_without_contents_requests_nothing(version: int, commit: bool) -> None:
    scripted = Scripted(version=version).begun()
    scripted.asked.clear()
    scripted.finish(scripted.machine.commit() if commit else scripted.machine.abort())
    assert scripted.asked == []
    assert scripted.machine.state is State.READY


@BOTH
def test_an_abort_drops_unsent_batches(version: int) -> None:
    scripted = Scripted(version=version).written()
    operation = scripted.machine.abort()
    assert isinstance(scripted.machine.drop_unsent, TransactionAborted)
    ask = scripted.ask()
    assert isinstance(ask.request, EndTxnRequest)
    assert not ask.request.committed
    scripted.answer(ask)
    operation.take()
    assert scripted.machine.drop_unsent is None


def test_an_abort_forgets_partitions_whose_addition_was_not_requested() -> None:
    scripted = Scripted(version=1).begun()
    scripted.asked.clear()
    scripted.machine.add_partition(P0)
    scripted.finish(scripted.machine.abort())
    assert scripted.asked == []


def test_an_addition_that_got_no_answer_is_requested_again_before_the_abort() -> None:
    """It may have been done, and then there is a transaction to be aborted."""
    scripted = Scripted(version=1).begun()
    scripted.machine.add_partition(P0)
    ask = scripted.ask()
    scripted.machine.abort()
    scripted.machine.failed(ask, NetworkFailed("cut"), scripted.now_s)
    scripted.pause()
    scripted.asked.clear()
    scripted.settle()
    assert scripted.asked == ["AddPartitionsToTxn", "EndTxn"]


def test_a_refused_addition_during_an_abort_is_ignored() -> None:
    scripted = Scripted(version=1).begun()
    scripted.machine.add_partition(P0)
    ask = scripted.ask()
    operation = scripted.machine.abort()
    scripted.answer(ask, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    scripted.finish(operation)


def test_the_version_of_transactions_is_that_of_the_cluster_when_the_one_before_has_ended() -> None:
    scripted = Scripted(version=1).written()
    scripted.machine.learn_version(2, 2)
    scripted.machine.learn_version(1, 1)
    assert not scripted.machine.is_version_2
    scripted.finish(scripted.machine.commit())
    assert scripted.machine.is_version_2


def test_the_first_transaction_of_version_2_has_its_own_epoch() -> None:
    """Nothing that was sent before can come into it."""
    scripted = Scripted(version=1).written()
    scripted.machine.learn_version(2, 2)
    scripted.finish(scripted.machine.commit())
    assert scripted.asked == ["EndTxn", "InitProducerId"]
    assert scripted.machine.identity == ProducerIdentity(PRODUCER_ID, 1)


# ---- offsets


def test_version_1_adds_a_group_once_and_then_commits_its_offsets() -> None:
    scripted = Scripted(version=1).begun()
    scripted.asked.clear()
    first = scripted.machine.send_offsets(OFFSETS, GROUP)
    second = scripted.machine.send_offsets({P1: OffsetAndMetadata(1)}, GROUP)
    scripted.settle()
    first.take()
    second.take()
    assert scripted.asked == ["AddOffsetsToTxn", "TxnOffsetCommit", "TxnOffsetCommit"]


def test_offset_commits_go_to_the_groups_coordinator_with_the_members_identity() -> None:
    scripted = Scripted(version=2).begun()
    operation = scripted.machine.send_offsets(OFFSETS, GROUP)
    ask = scripted.ask()
    request = ask.request
    assert isinstance(request, TxnOffsetCommitRequest)
    assert (ask.to, ask.key) == (To.GROUP_COORDINATOR, "g")
    assert (request.group_id, request.generation_id, request.member_id, request.group_instance_id) == ("g", 7, "m", "i")
    assert (request.transactional_id, request.producer_id, request.producer_epoch) == ("id", PRODUCER_ID, 0)
    partition = request.topics[0].partitions[0]
    assert (partition.committed_offset, partition.committed_metadata, partition.committed_leader_epoch) == (
        42,
        "here",
        3,
    )
    scripted.answer(ask)
    operation.take()


def test_offsets_that_may_yet_be_committed_are_sent_again_alone() -> None:
    scripted = Scripted(version=2).begun()
    operation = scripted.machine.send_offsets({P0: OffsetAndMetadata(1), P1: OffsetAndMetadata(2)}, GROUP)
    told = committed({P0: ErrorCode.NONE, P1: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS})
    scripted.machine.answered(scripted.ask(), told, scripted.now_s)
    assert not operation.is_done
    scripted.pause()
    ask = scripted.ask()
    assert isinstance(ask.request, TxnOffsetCommitRequest)
    assert [one.partition_index for one in ask.request.topics[0].partitions] == [1]
    scripted.answer(ask)
    operation.take()


@BOTH
def test_a_transaction_of_offsets_alone_is_ended(version: int) -> None:
    scripted = Scripted(version=version).begun()
    scripted.machine.send_offsets(OFFSETS, GROUP)
    scripted.settle()
    scripted.finish(scripted.machine.commit())
    assert scripted.asked[-1] == "EndTxn"


@BOTH
def test_offsets_that_wait_fail_when_the_transaction_is_aborted(version: int) -> None:
    scripted = Scripted(version=version).begun()
    operation = scripted.machine.send_offsets(OFFSETS, GROUP)
    scripted.finish(scripted.machine.abort())
    with pytest.raises(TransactionAborted):
        operation.take()


def test_an_offsets_response_after_the_abort_is_ignored() -> None:
    scripted = Scripted(version=2).begun()
    scripted.machine.send_offsets(OFFSETS, GROUP)
    ask = scripted.ask()
    operation = scripted.machine.abort()
    scripted.answer(ask, ErrorCode.ILLEGAL_GENERATION)
    scripted.finish(operation)
    assert scripted.asked[-1] == "EndTxn"


def test_no_offsets_are_done_at_once() -> None:
    scripted = Scripted().begun()
    scripted.machine.send_offsets({}, GROUP).take()
    assert scripted.next_ask() is None


def test_a_generation_without_a_member_is_refused() -> None:
    with pytest.raises(BadSetting, match="group_metadata"):
        Scripted().begun().machine.send_offsets(OFFSETS, GroupMetadata("g", 7))


# ---- again


def test_a_request_is_sent_again_after_a_pause() -> None:
    scripted = Scripted()
    scripted.machine.initialize()
    scripted.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert scripted.next_ask() is None
    assert 0.05 < scripted.pause() < 0.2
    ask = scripted.ask()
    assert isinstance(ask.request, InitProducerIdRequest)
    assert not ask.look_up


def test_pauses_grow_until_something_succeeds() -> None:
    scripted = Scripted()
    operation = scripted.machine.initialize()
    pauses = []
    for _ in range(3):
        scripted.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
        pauses.append(scripted.pause())
    assert pauses == sorted(pauses)
    scripted.finish(operation)
    scripted.machine.begin()
    scripted.machine.send_offsets(OFFSETS, GROUP)
    scripted.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    assert scripted.pause() < pauses[-1]


@pytest.mark.parametrize("error", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_has_moved_is_looked_up_once(error: ErrorCode) -> None:
    scripted = Scripted()
    scripted.machine.initialize()
    scripted.refuse(error)
    scripted.pause()
    ask = scripted.ask()
    assert ask.look_up
    scripted.answer(ask)
    scripted.machine.initialize().take()
    scripted.machine.begin()
    scripted.machine.add_partition(P0)
    scripted.machine.commit()
    assert not scripted.ask().look_up


def test_a_coordinator_that_does_not_answer_is_looked_up() -> None:
    scripted = Scripted().written()
    scripted.machine.commit()
    scripted.machine.failed(scripted.ask(), NetworkFailed("cut"), scripted.now_s)
    scripted.pause()
    ask = scripted.ask()
    assert ask.look_up
    assert isinstance(ask.request, EndTxnRequest)
    assert ask.request.producer_epoch == 0


def test_the_first_addition_of_a_transaction_is_repeated_soon_while_the_one_before_is_completed() -> None:
    scripted = Scripted(version=1).begun()
    scripted.machine.add_partition(P0)
    scripted.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert scripted.pause() == pytest.approx(0.020)
    scripted.settle()
    scripted.machine.add_partition(P1)
    scripted.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
    assert scripted.pause() > 0.05


def test_partitions_that_were_not_tried_are_added_with_those_that_were_unknown() -> None:
    scripted = Scripted(version=1).begun()
    scripted.machine.add_partition(P0)
    scripted.machine.add_partition(P1)
    told = added({P0: ErrorCode.OPERATION_NOT_ATTEMPTED, P1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
    scripted.machine.answered(scripted.ask(), told, scripted.now_s)
    scripted.pause()
    assert partitions_of(scripted.ask()) == [("t", [0, 1])]


def test_one_request_is_in_flight_at_a_time() -> None:
    scripted = Scripted(version=1).begun()
    scripted.machine.add_partition(P0)
    scripted.ask()
    scripted.machine.add_partition(P1)
    assert scripted.next_ask() is None
    assert scripted.machine.next_check_s(scripted.now_s) == inf
