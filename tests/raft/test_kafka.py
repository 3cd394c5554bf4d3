"""The machine on Kafka's own metadata directory: it reads what Kafka wrote, and writes what Kafka would."""

import tarfile
from functools import cache
from pathlib import Path

from cordwood.raft.control_state import ControlState
from cordwood.raft.effects import Append, CommitUpTo, Flush, LeadershipChanged, PersistQuorumState
from cordwood.raft.election_state import ElectionState
from cordwood.raft.events import Flushed
from cordwood.raft.identity import Node
from cordwood.raft.log import BOOTSTRAP_SNAPSHOT, LogState, OffsetAndEpoch
from cordwood.raft.machine import RaftMachine
from cordwood.raft.replica import ReplicaConfig
from cordwood.raft.voters import VoterNode
from cordwood.wire.batch_header import batch_headers
from cordwood.wire.records import decode_batch
from tests.raft.raft_memory_log import Content, MemoryLog, StoredBatch
from tests.raft.raft_transcript import Steady

VECTORS = Path(__file__).parent.parent / "vectors"


@cache
def kafka_file(name: str) -> bytes:
    with tarfile.open(VECTORS / "kafka-data-dir.tar.gz") as tar:
        file = tar.extractfile(f"data/__cluster_metadata-0/{name}")
        assert file is not None
        return file.read()


def kafka_content() -> Content:
    data = kafka_file("00000000000000000000.log")
    batches = tuple(
        StoredBatch(header.base_offset, header.next_offset, header.leader_epoch, data[at : at + header.size])
        for at, header in batch_headers(data)
    )
    snapshots = {
        OffsetAndEpoch(offset, epoch): kafka_file(f"{offset:020d}-{epoch:010d}.checkpoint")
        for offset, epoch in ((0, 0), (122, 1), (255, 2))
    }
    return Content(0, batches, snapshots)


def machine_on(log: MemoryLog, election: ElectionState, local: VoterNode) -> RaftMachine:
    config = ReplicaConfig("cluster", local, "CONTROLLER", [Node(-2, "localhost", 9093)])
    return RaftMachine(config, LogState.of(log), ControlState.load(log), election, Steady())


def kafka_voter() -> VoterNode:
    (voter,) = ControlState.load(MemoryLog(kafka_content())).voters
    return voter


def test_the_voters_of_kafkas_log_are_those_of_its_latest_snapshot_and_the_log_after_it() -> None:
    log = MemoryLog(kafka_content())
    control = ControlState.load(log)
    assert control.kraft_version == 1
    assert control.voters.ids == [1]
    assert control.voters == ControlState.load(MemoryLog(Content(0, kafka_content().batches))).voters


def test_kafkas_quorum_state_is_read_and_written_byte_for_byte() -> None:
    data = kafka_file("quorum-state")
    election = ElectionState.decode("quorum-state", data)
    assert election == ElectionState(2, 1)
    assert election.encode(1, [1]) == data


def test_a_machine_on_kafkas_directory_leads_the_next_epoch() -> None:
    log = MemoryLog(kafka_content())
    election = ElectionState.decode("quorum-state", kafka_file("quorum-state"))
    machine = machine_on(log, election, kafka_voter())
    end = log.end_offset
    assert machine.log.last_epoch == 2
    kinds = [type(effect) for effect in machine.start(now=1)]
    assert kinds == [PersistQuorumState, Append, Flush, LeadershipChanged]
    assert machine.epoch == 3
    committed = machine.step(Flushed(end + 1), now=2)
    assert committed == [CommitUpTo(end + 1), LeadershipChanged(1, 3)]


def test_the_first_batch_of_a_formatted_node_is_the_one_that_kafka_writes() -> None:
    content = kafka_content()
    formatted = MemoryLog(Content(snapshots={BOOTSTRAP_SNAPSHOT: content.snapshots[BOOTSTRAP_SNAPSHOT]}))
    machine = machine_on(formatted, ElectionState(), kafka_voter())
    (append,) = (effect for effect in machine.start(now=1) if isinstance(effect, Append))
    kafkas = decode_batch(content.batches[0].data)
    assert [(record.key, record.value) for record in decode_batch(append.batches)] == [
        (record.key, record.value) for record in kafkas
    ]
    assert machine.epoch == content.batches[0].epoch
