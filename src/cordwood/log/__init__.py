"""One partition on disk: segments, indexes, producer state, leader epochs, recovery, retention, compaction."""
