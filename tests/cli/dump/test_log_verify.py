"""`cordwood log dump --verify`: what is whole has no problems, and damage is found."""

import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

import cordwood
import cordwood.testing
from tests.cli.log_dumping import FIRST, batch_at, dump, dump_json, of_type, write_segment


def test_kafkas_directory_is_verified_without_a_problem(kafkas: Path) -> None:
    done = dump("--verify", "--quiet", kafkas)
    assert (done.exit_code, done.stdout) == (0, "731 batches, 1631 records, 0 problems\n")


def _flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def _damage_record(partition: Path) -> None:
    _flip(partition / f"{4:020d}.log", 240)


def _tear(partition: Path) -> None:
    path = partition / f"{130:020d}.log"
    os.truncate(path, path.stat().st_size - 3)


def _go_back(partition: Path) -> None:
    path = partition / f"{FIRST}.log"
    data = path.read_bytes()
    path.write_bytes(data + data)


def _overlap(partition: Path) -> None:
    (partition / f"{FIRST}.log").write_bytes((partition / f"{30:020d}.log").read_bytes())


def _shift_index_offset(partition: Path) -> None:
    _flip(partition / f"{4:020d}.index", 3)


def _shift_index_position(partition: Path) -> None:
    _flip(partition / f"{4:020d}.index", 7)


def _cut_index(partition: Path) -> None:
    os.truncate(partition / f"{4:020d}.index", 5)


def _shift_index_past_the_end(partition: Path) -> None:
    (partition / f"{4:020d}.index").write_bytes(struct.pack(">ii", 10, 100_000))


def _change_timestamp(partition: Path) -> None:
    _flip(partition / f"{4:020d}.timeindex", 7)


def _change_time_index_offset(partition: Path) -> None:
    (partition / f"{4:020d}.timeindex").write_bytes(struct.pack(">qi", 1_794_771_802_650, 5_000))


def _change_aborted_producer(partition: Path) -> None:
    _flip(partition / f"{4:020d}.txnindex", 9)


def _change_aborted_end(partition: Path) -> None:
    _flip(partition / f"{4:020d}.txnindex", 25)


def _drop_aborted(partition: Path) -> None:
    (partition / f"{4:020d}.txnindex").unlink()


def _damage_snapshot(partition: Path) -> None:
    _flip(partition / f"{30:020d}.snapshot", 20)


def _miscount_epochs(partition: Path) -> None:
    (partition / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n2 80\n")


DAMAGE: list[tuple[Callable[[Path], None], str]] = [
    (_damage_record, "stored checksum"),
    (_tear, "torn"),
    (_go_back, "does not follow 3"),
    (_overlap, "the segment before it goes up to offset 40"),
    (_shift_index_offset, "the batch there ends at offset 8"),
    (_shift_index_position, "no batch begins there"),
    (_cut_index, "5 bytes too many"),
    (_shift_index_past_the_end, "no batch begins there"),
    (_change_timestamp, "that batch's maximum timestamp is"),
    (_change_time_index_offset, "no batch holds this offset"),
    (_change_aborted_producer, "the marker is of producer 4"),
    (_change_aborted_end, "no marker is there"),
    (_drop_aborted, "is not in the transaction index"),
    (_damage_snapshot, "stored checksum"),
    (_miscount_epochs, "3 rows declared, 2 found"),
]


@pytest.mark.parametrize(("damage", "reason"), DAMAGE, ids=[damage.__name__.strip("_") for damage, _ in DAMAGE])
def test_verify_finds(damage: Callable[[Path], None], reason: str, kafkas: Path, tmp_path: Path) -> None:
    partition = tmp_path / "transactional-0"
    shutil.copytree(kafkas / "transactional-0", partition)
    damage(partition)
    done = dump("--verify", "--quiet", partition)
    assert done.exit_code == 1
    *problems, summary = done.stdout.splitlines()
    assert any(line.startswith("PROBLEM") and reason in line for line in problems), done.stdout
    assert summary.endswith(f" records, {len(problems)} problems")


def test_the_last_segments_aborted_transactions_may_be_known_to_a_running_broker_only(tmp_path: Path) -> None:
    with cordwood.testing.node(data=tmp_path / "data") as node:
        topic = node.topic("orders")
        with cordwood.Producer(bootstrap_servers=node.bootstrap, transactional_id="t") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(topic, b"never")
            producer.flush()
            producer.abort_transaction()
            # By then the marker is written.
            with producer.transaction():
                producer.send(topic, b"always")
        done = dump("--verify", tmp_path / "data" / f"{topic}-0")
    assert done.exit_code == 0, done.stdout


def test_an_index_by_itself_is_verified_against_the_segment_beside_it(kafkas: Path, tmp_path: Path) -> None:
    partition = tmp_path / "transactional-0"
    shutil.copytree(kafkas / "transactional-0", partition)
    assert dump("--verify", partition / f"{4:020d}.index").exit_code == 0
    _shift_index_offset(partition)
    assert dump("--verify", partition / f"{4:020d}.index").exit_code == 1


def test_damage_is_shown_without_verify_and_is_not_a_failure(tmp_path: Path) -> None:
    broken = batch_at(1, "broken")
    broken[-2] ^= 1
    path = write_segment(tmp_path / "t-0" / f"{FIRST}.log", batch_at(0, "a"), broken, batch_at(2, "b"), b"torn")
    lines = dump_json(path)
    assert [(batch["baseOffset"], batch["valid"]) for batch in of_type(lines, "batch")] == [
        (0, True),
        (1, False),
        (2, True),
    ]
    crc, torn = of_type(lines, "problem")
    assert crc["position"] == len(batch_at(0, "a"))
    assert (torn["position"], torn["sizeInBytes"]) == (path.stat().st_size - 4, 4)


def test_zeros_after_the_last_batch_and_the_last_entry_are_padding(kafkas: Path, tmp_path: Path) -> None:
    partition = tmp_path / "plain-0"
    shutil.copytree(kafkas / "plain-0", partition)
    os.truncate(partition / f"{34:020d}.log", 10_000)
    os.truncate(partition / f"{34:020d}.index", 4096)
    os.truncate(partition / f"{34:020d}.timeindex", 4092)
    done = dump("--verify", "--indexes", partition)
    assert done.exit_code == 0
    assert "padding position: 140 sizeInBytes: 9860" in done.stdout


def test_what_a_start_has_cut_off_and_kept_is_no_problem_of_its_directory(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0" / f"{FIRST}.log", batch_at(0, "a"))
    copy = write_segment(tmp_path / "t-0" / f"{1:020d}.log.corrupt", b"torn")
    done = dump("--verify", tmp_path)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "1 batches, 1 records, 0 problems")
    assert f"== {copy} (log segment, cut off and kept; not verified, 4 bytes)" in done.stdout
    assert dump("--verify", copy).exit_code == 1
