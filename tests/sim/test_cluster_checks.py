"""The checks of a cluster's replicas: each finds what it is for in a history made by hand. And who may lose a disk."""

from dataclasses import replace

from cordwood.metadata.image import PartitionRegistration as PartitionState
from cordwood.metadata.storage.batch import MetadataBatch
from cordwood.sim.checks.clean_elections import leaders_have_been_in_sync
from cordwood.sim.checks.isr_changes import leaders_go_by_the_committed_isr
from cordwood.sim.checks.partition_watermarks import elections_move_no_high_watermark_back
from cordwood.sim.checks.reassignments import reassignments_end_in_sync
from cordwood.sim.checks.unseen import nothing_stays_unseen
from cordwood.sim.histories.history import FinalLog, History, Outcome, Promise, Seen, Send
from cordwood.sim.histories.replicas import Held, Led, ReplicaHistory, StateCommitted
from cordwood.sim.record_life import life
from cordwood.sim.watches.partition_watch import PartitionWatch
from cordwood.sim.world import World
from cordwood.wire.messages.metadata_records.clear_elr_record import ClearElrRecord
from cordwood.wire.messages.metadata_records.partition_change_record import PartitionChangeRecord
from cordwood.wire.messages.metadata_records.partition_record import PartitionRecord
from cordwood.wire.messages.metadata_records.remove_topic_record import RemoveTopicRecord
from cordwood.wire.messages.metadata_records.topic_record import TopicRecord
from cordwood.wire.schema import MetadataRecord

TOPIC = ("topic", 0)
TOPIC_ID = bytes(15) + b"\1"
FIRST = PartitionState((1, 2, 3), (1, 2, 3), leader=1, leader_epoch=0, partition_epoch=0)


def history_of(*states: PartitionState) -> History:
    history = History(Promise.REPLICATED)
    before: PartitionState | None = None
    for at_s, state in enumerate(states):
        history.replicas.states.append(StateCommitted(float(at_s), TOPIC, before, state))
        before = state
    return history


# Elections


def elected(leader: int, isr: tuple[int, ...], *, of: PartitionState = FIRST) -> PartitionState:
    return replace(of, leader=leader, isr=isr, leader_epoch=of.leader_epoch + 1, partition_epoch=of.partition_epoch + 1)


def test_a_leader_that_was_in_sync_or_eligible_is_fine() -> None:
    eligible = replace(FIRST, isr=(), elr=(3,), leader=-1, partition_epoch=1)
    assert not list(leaders_have_been_in_sync(history_of(FIRST, elected(2, (2, 3)))))
    assert not list(leaders_have_been_in_sync(history_of(eligible, elected(3, (3,), of=eligible))))


def test_a_leader_that_was_out_of_sync_is_found() -> None:
    alone = replace(FIRST, isr=(1,), partition_epoch=1)
    history = history_of(alone, elected(2, (2,), of=alone))
    assert list(leaders_have_been_in_sync(history))
    history.replicas.loose.add("topic")
    assert not list(leaders_have_been_in_sync(history))


def held(at_s: float, high_watermark: int, epoch: int, *, is_leader: bool) -> Held:
    return Held(at_s, 2, 1, TOPIC, 0, high_watermark, epoch, is_leader)


def test_an_election_that_moves_the_high_watermark_back_is_found() -> None:
    history = History(Promise.REPLICATED)
    history.replicas.held += [held(1, 10, 0, is_leader=False), held(2, 7, 1, is_leader=True)]
    assert list(elections_move_no_high_watermark_back(history))
    history.replicas.held[-1] = held(2, 7, 1, is_leader=False)
    assert not list(elections_move_no_high_watermark_back(history))


def test_a_new_leader_may_have_taken_a_lower_high_watermark_from_the_leader_that_it_followed() -> None:
    history = History(Promise.REPLICATED)
    history.replicas.held += [held(1, 10, 0, is_leader=False), held(2, 7, 1, is_leader=True)]
    history.replicas.led.append(Led(1, 3, 1, TOPIC, 0, 10))
    assert list(elections_move_no_high_watermark_back(history))
    history.replicas.led[-1] = Led(1, 3, 1, TOPIC, 0, 7)
    assert not list(elections_move_no_high_watermark_back(history))


# The set of those in sync


def test_an_uncommitted_isr_is_found() -> None:
    history = history_of(FIRST)
    history.replicas.led.append(Led(1.0, 1, 1, TOPIC, 0, 5, (1, 2, 3), 0))
    assert not list(leaders_go_by_the_committed_isr(history))
    history.replicas.led.append(Led(2.0, 1, 1, TOPIC, 0, 5, (1, 2), 0))
    assert list(leaders_go_by_the_committed_isr(history))


def test_a_reassignment_that_ends_before_its_replicas_are_in_sync_is_found() -> None:
    adding = replace(FIRST, replicas=(1, 2, 4, 3), adding_replicas=(4,), removing_replicas=(3,), partition_epoch=1)
    late = replace(FIRST, replicas=(1, 2, 4), isr=(1, 2, 4), partition_epoch=2)
    early = replace(late, isr=(1, 2))
    cancelled = replace(FIRST, isr=(1, 2), partition_epoch=2)
    assert not list(reassignments_end_in_sync(history_of(FIRST, adding, late)))
    assert not list(reassignments_end_in_sync(history_of(FIRST, adding, cancelled)))
    assert list(reassignments_end_in_sync(history_of(FIRST, adding, early)))
    assert list(reassignments_end_in_sync(history_of(FIRST, early)))


# The end


def test_records_hidden_from_a_reader_are_found() -> None:
    history = History(Promise.REPLICATED)
    history.final[TOPIC] = FinalLog(0, 2, 1, [Seen(0, 0, b"a"), Seen(1, 0, b"b")])
    history.replicas.final_offsets[TOPIC] = [0, 1]
    assert not list(nothing_stays_unseen(history))
    history.replicas.final_offsets[TOPIC] = [0, 1, 2]
    assert list(nothing_stays_unseen(history))


def test_the_life_of_a_record_shows_its_outcome() -> None:
    history = history_of(FIRST, elected(2, (2, 3)))
    send = Send(7, "producer-0", TOPIC, (b"a",), (None,), -1, 0.5, outcome=Outcome.ACKNOWLEDGED)
    send.base_offset, send.ended_s = 4, 0.7
    history.sends.append(send)
    history.final[TOPIC] = FinalLog(0, 4, 1, read_s=9.0)
    told = life(history, f"nothing acknowledged is lost: topic-0 ends at 4: {send}").splitlines()
    assert told == [
        "send 7 to topic-0:",
        "    0.000000  node 1 leads epoch 0; in sync (1, 2, 3), eligible ()",
        "    0.500000  producer-0 sends it with acks=-1: 1 records",
        "    0.700000  producer-0 gets acknowledged at 4",
        "    1.000000  node 2 leads epoch 1; in sync (2, 3), eligible ()",
        "    9.000000  it is not in the log, which ends at 4",
    ]


# Permitted losses of disks


def watch_of(*records: MetadataRecord) -> PartitionWatch:
    watch = PartitionWatch(World(1), ReplicaHistory())
    created = PartitionRecord(
        partition_id=0,
        topic_id=TOPIC_ID,
        replicas=[1, 2, 3],
        isr=[1, 2, 3],
        leader=1,
        leader_epoch=0,
        partition_epoch=0,
    )
    commit(watch, TopicRecord(name="topic", topic_id=TOPIC_ID), created, *records)
    return watch


def commit(watch: PartitionWatch, *records: MetadataRecord) -> None:
    start = watch.next_offset
    watch.committed([MetadataBatch(start, start + len(records), 1, 0, 0, records)])


def isr(*members: int) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=list(members))


def test_a_disk_may_go_while_another_broker_that_runs_is_in_sync() -> None:
    watch = watch_of()
    assert watch.is_spared(1, alive={2})
    assert not watch.is_spared(1, alive={1})
    commit(watch, isr(1))
    assert not watch.is_spared(1, alive={1, 2, 3})
    assert watch.is_spared(2, alive={1, 2, 3})


def test_clearing_eligible_replicas_clears_all_and_begins_a_partition_epoch() -> None:
    watch = watch_of(
        PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[1], eligible_leader_replicas=[2]),
    )
    assert watch.is_spared(1, alive={1, 2})
    commit(watch, ClearElrRecord(topic_name="topic"))
    assert not watch.is_spared(1, alive={1, 2})
    assert watch.states[TOPIC].partition_epoch == 2


def test_a_broker_that_has_lost_its_disk_counts_again_when_it_was_out_of_sync_and_has_come_back() -> None:
    watch = watch_of(isr(1, 2))
    watch.loses_data(2)
    assert watch.lossy_nodes == {2}
    assert not watch.is_spared(1, alive={1, 2, 3})
    commit(watch, isr(1))
    assert watch.lossy_nodes == set()
    assert not watch.is_spared(1, alive={1, 2, 3})
    commit(watch, isr(1, 2))
    assert watch.is_spared(1, alive={1, 2, 3})


def test_a_broker_that_has_lost_its_disk_counts_against_others_while_it_may_lead_as_the_last_known_leader() -> None:
    watch = watch_of(PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=[2], leader=2))
    watch.loses_data(2)
    nobody = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, isr=[], eligible_leader_replicas=[1], last_known_elr=[2], leader=-1
    )
    commit(watch, nobody)
    assert watch.lossy_nodes == {2}, "were node 1 killed now, node 2 would lead"
    elected = PartitionChangeRecord(
        partition_id=0, topic_id=TOPIC_ID, isr=[1], eligible_leader_replicas=[], last_known_elr=[], leader=1
    )
    commit(watch, elected)
    assert watch.lossy_nodes == set()


def test_deleting_a_topic_deletes_its_lost_partitions() -> None:
    watch = watch_of()
    watch.loses_data(2)
    commit(watch, RemoveTopicRecord(topic_id=TOPIC_ID))
    assert watch.lossy_nodes == set()
