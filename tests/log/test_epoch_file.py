"""Leader epochs that are written ahead of a flush."""

import random

from cordwood.log.epoch_file import writing_epochs
from cordwood.log.files import LEADER_EPOCHS
from cordwood.log.steps import do_all
from cordwood.sim.virtual.disk import SimDisk
from tests.log.support import NOW, batch, open_at


def test_they_are_durable_with_the_flush() -> None:
    for seed in range(40):
        disk = SimDisk(random.Random(seed))
        log = open_at(disk)
        for epoch in (1, 2):
            # The second flush has nothing else to do in the directory.
            log.append_as_leader(batch("a"), epoch, NOW)
            do_all(writing_epochs(log, "flusher"))
            assert not log.epochs.changed
            log.flush(NOW)
        assert disk.restart().read_file(f"t-0/{LEADER_EPOCHS}") == b"0\n2\n1 0\n2 1\n"


def test_epochs_changed_in_the_meantime_are_left_to_the_flush() -> None:
    disk = SimDisk(random.Random(1))
    log = open_at(disk)
    log.append_as_leader(batch("a"), 1, NOW)
    steps = writing_epochs(log, "flusher")
    write = next(steps)
    assert not isinstance(write, int)
    log.append_as_leader(batch("a"), 2, NOW)
    write()
    do_all(steps)
    assert log.epochs.changed
    log.flush(NOW)
    assert disk.read_file(f"t-0/{LEADER_EPOCHS}") == b"0\n2\n1 0\n2 1\n"
    assert [path for path in disk.files() if LEADER_EPOCHS in path] == [f"t-0/{LEADER_EPOCHS}"]


def test_concurrent_writers_use_different_temporary_files() -> None:
    disk = SimDisk(random.Random(1))
    log = open_at(disk)
    log.append_as_leader(batch("a"), 1, NOW)
    first = writing_epochs(log, "flusher")
    write = next(first)
    assert not isinstance(write, int)
    write()
    do_all(writing_epochs(log, "cleaner"))
    log.epochs.changed = True
    do_all(first)
    assert disk.failure is None
    assert disk.read_file(f"t-0/{LEADER_EPOCHS}") == b"0\n1\n1 0\n"
