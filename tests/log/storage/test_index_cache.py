"""The cache that the indexes of all directories share."""

import errno
import random

from cordwood.log.config import LogConfig
from cordwood.log.log import Log
from cordwood.log.recovery import OpenOptions, open_log
from cordwood.log.storage.index import IndexCache
from cordwood.runtime.randomness import SeededRandom
from cordwood.sim.virtual.disk import SimDisk
from tests.log.support import NOW, batch

CONFIG = LogConfig(index_interval_bytes=1, segment_bytes=2_000)


def log_on(disk: SimDisk, cache: IndexCache) -> Log:
    return open_log(disk, "t-0", CONFIG, SeededRandom(1), now_ms=NOW, options=OpenOptions(clean=True), cache=cache)


def test_making_room_does_not_fail_for_a_directory_that_is_not_concerned() -> None:
    """An index that is unloaded may have entries to write, and its own directory may be the one that fails."""
    cache = IndexCache(max_bytes=300)
    bad, good = SimDisk(random.Random(1), root="/bad"), SimDisk(random.Random(2), root="/good")
    log = log_on(bad, cache)
    for _ in range(5):
        log.append_as_leader(batch("x"), 0, NOW)
    log.close(NOW)
    # Its active segment's index is in the cache, and gets entries that are not in the file.
    log = log_on(bad, cache)
    log.read(0, 100, log.end_offset)
    for _ in range(5):
        log.append_as_leader(batch("x"), 0, NOW)
    bad.fail_next("append to", errno.EIO)

    other = log_on(good, cache)
    for _ in range(200):
        other.append_as_leader(batch("y"), 0, NOW)
    assert good.failure is None
    assert bad.failure is not None, "else it was not asked to write"
