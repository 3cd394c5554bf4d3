"""Checkpoints that are written in steps, while partitions come and go, are truncated, and the power is lost."""

import random

import pytest

from cordwood.log.checkpoints.formats import RECOVERY_POINTS, read_offsets
from cordwood.log.config import LogConfig
from cordwood.log.dirs.directory import LogDirectory
from cordwood.log.log import Log
from cordwood.log.steps import Steps, do_all
from cordwood.runtime.clock import SystemClock
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk, SimulatedCrash
from tests.log.support import NOW, batch

TOPIC_ID = bytes(range(16))


def directory_on(disk: SimDisk) -> LogDirectory:
    directory = LogDirectory(disk, lambda _topic: LogConfig(), SystemClock(), SeededRandom(3))
    directory.open()
    return directory


def flushed_log(directory: LogDirectory, topic: str = "t", records: int = 3) -> Log:
    log = directory.create(topic, 0, TOPIC_ID, NOW)
    for number in range(records):
        log.append_as_leader(batch(str(number)), 0, NOW)
    log.advance_high_watermark(log.end_offset)
    log.flush(NOW)
    return log


def up_to_the_first_job(steps: Steps[None]) -> None:
    """From here on a thread writes the gathered offsets."""
    for step in steps:
        if not isinstance(step, int):
            step()
            return
    raise AssertionError("there was nothing to write")


def test_writing_in_steps_gives_the_same_file() -> None:
    disk = SimDisk(random.Random(1))
    directory = directory_on(disk)
    flushed_log(directory)
    flushed_log(directory, "u", 5).advance_start(2)
    do_all(directory.checkpoints.writing(*directory.checkpoints))
    in_steps = {path: data for path, data in disk.files().items() if path.endswith("checkpoint") and "/" not in path}
    directory.checkpoints.write_all()
    assert in_steps == {path: disk.files()[path] for path in in_steps}
    assert len(in_steps) == 4


def test_unchanged_state_is_not_written_again() -> None:
    disk = SimDisk(random.Random(1))
    directory = directory_on(disk)
    flushed_log(directory)
    do_all(directory.checkpoints.writing(*directory.checkpoints))
    steps = disk.steps
    do_all(directory.checkpoints.writing(*directory.checkpoints))
    assert disk.steps == steps


def test_nor_after_a_restart() -> None:
    disk = SimDisk(random.Random(1))
    directory = directory_on(disk)
    flushed_log(directory)
    directory.close()
    directory = directory_on(disk)
    steps = disk.steps
    do_all(directory.checkpoints.writing(*directory.checkpoints))
    assert disk.steps == steps


def test_a_concurrent_truncation_is_not_overwritten() -> None:
    disk = SimDisk(random.Random(1))
    directory = directory_on(disk)
    flushed_log(directory)
    steps = directory.checkpoints.writing(directory.checkpoints.recovery_points)
    up_to_the_first_job(steps)
    directory.truncate("t", 0, 1, NOW)
    do_all(steps)
    assert read_offsets(disk, RECOVERY_POINTS) == {("t", 0): 1}
    assert directory.checkpoints.recovery_points.offset_of(("t", 0)) == 1


def test_a_recreated_partition_does_not_inherit_offsets() -> None:
    disk = SimDisk(random.Random(1))
    directory = directory_on(disk)
    flushed_log(directory)
    steps = directory.checkpoints.writing(*directory.checkpoints)
    up_to_the_first_job(steps)
    directory.delete("t", 0, NOW)
    directory.create("t", 0, TOPIC_ID, NOW)
    do_all(steps)
    assert read_offsets(disk, RECOVERY_POINTS) == {}


def test_of_two_concurrent_writes_the_older_does_not_overwrite_the_newer() -> None:
    """The cleaner counts on the recovery point that it has written before it swaps segments."""
    disk = SimDisk(random.Random(1))
    directory = directory_on(disk)
    log = flushed_log(directory)
    older = directory.checkpoints.writing(directory.checkpoints.recovery_points)
    up_to_the_first_job(older)
    log.append_as_leader(batch("more"), 0, NOW)
    log.flush(NOW)
    do_all(directory.checkpoints.writing(directory.checkpoints.recovery_points))
    do_all(older)
    assert read_offsets(disk, RECOVERY_POINTS) == {("t", 0): 4}


def test_deleting_and_making_partitions_does_not_write_checkpoints_that_do_not_name_them() -> None:
    disk = SimDisk(random.Random(1))
    directory = directory_on(disk)
    flushed_log(directory)
    do_all(directory.checkpoints.writing(*directory.checkpoints))
    flushed_log(directory, "new")
    before = {path: data for path, data in disk.files().items() if path.endswith("checkpoint") and "/" not in path}
    directory.delete("new", 0, NOW)
    directory.create("new", 0, TOPIC_ID, NOW)
    assert {path: disk.files()[path] for path in before} == before


def test_a_draft_that_was_begun_before_a_deletion_does_not_bring_the_offsets_of_the_old_partition_back() -> None:
    disk = SimDisk(random.Random(1))
    directory = directory_on(disk)
    flushed_log(directory, "new")
    old = directory.checkpoints.writing(directory.checkpoints.recovery_points)
    write = next(old)
    directory.delete("new", 0, NOW)
    # It finds nothing to write.
    do_all(directory.checkpoints.writing(directory.checkpoints.recovery_points))
    assert not isinstance(write, int)
    write()
    do_all(old)
    directory.create("new", 0, TOPIC_ID, NOW)
    assert read_offsets(disk, RECOVERY_POINTS) == {}


class World:
    """One partition that is written, flushed, truncated, deleted and recreated while checkpoints are in progress. After
    a crash the checkpoint must not say more of it than is there, since what lies below is not checked."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.disk = SimDisk(random.Random(seed + 1))
        self.directory = directory_on(self.disk)
        self.under_way: list[Steps[None]] = []
        self.generation = 0
        self.is_truncating = False

    def run(self) -> None:
        self.disk.crash_at(self.disk.steps + self.source.randrange(5, 150))
        try:
            while True:
                self.source.choice([self.append, self.flush, self.step, self.step, self.truncate, self.replace])()
        except SimulatedCrash:
            pass
        self.check(self.disk.restart())

    @property
    def log(self) -> Log | None:
        return self.directory.logs.get(("t", 0))

    def append(self) -> None:
        if self.log is not None:
            self.log.append_as_leader(batch(f"{self.generation}"), 0, NOW)
            self.log.advance_high_watermark(self.log.end_offset)

    def flush(self) -> None:
        if self.log is not None:
            self.log.flush(NOW)

    def truncate(self) -> None:
        if self.log is not None and self.source.random() < 0.3:
            self.is_truncating = True
            self.directory.truncate("t", 0, self.source.randrange(self.log.end_offset + 1), NOW)
            self.is_truncating = False

    def replace(self) -> None:
        if self.source.random() < 0.4:
            if self.log is not None:
                self.directory.delete("t", 0, NOW)
            else:
                self.generation += 1
                self.directory.create("t", 0, self.generation.to_bytes(16), NOW)

    def step(self) -> None:
        if len(self.under_way) < 2:
            names = self.source.sample(list(self.directory.checkpoints), self.source.randrange(1, 5))
            self.under_way.append(self.directory.checkpoints.writing(*names))
        steps = self.source.choice(self.under_way)
        step = next(steps, None)
        if step is None:
            self.under_way.remove(steps)
        elif not isinstance(step, int):
            step()

    def check(self, disk: SimDisk) -> None:
        """As opening does it: whatever is below the recovery point is trusted, so it must be whole."""
        noted = read_offsets(disk, RECOVERY_POINTS).get(("t", 0), 0)
        directory = directory_on(disk)
        log = directory.logs.get(("t", 0))
        if log is None or directory.topic_ids.get(("t", 0)) != self.generation.to_bytes(16):
            # Files of a deleted partition that a crash brought back are deleted again, according to the cluster's
            # metadata.
            return
        if self.is_truncating:
            # The log is shorter before the checkpoint says so; opening it has set that right.
            noted = read_offsets(disk, RECOVERY_POINTS).get(("t", 0), 0)
        assert noted <= log.end_offset, f"{noted} was noted of a log that ends at {log.end_offset}"


@pytest.mark.parametrize("first_seed", range(0, 400, 100))
def test_a_checkpoint_never_exceeds_the_log(first_seed: int) -> None:
    for seed in range(first_seed, first_seed + 100):
        World(seed).run()
