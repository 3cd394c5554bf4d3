"""Cached segment limits do not change where a log rolls."""

from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from cordwood.log.config import LogConfig
from cordwood.log.storage.rolling import should_roll
from cordwood.sim.virtual.disk import SimDisk
from tests.log.support import NOW, batch, open_at

configs = st.builds(
    LogConfig,
    segment_bytes=st.sampled_from([400, 2_000, 100_000]),
    segment_index_bytes=st.sampled_from([24, 48, 96, 10_000]),
    index_interval_bytes=st.sampled_from([1, 100, 300, 4_096]),
    segment_ms=st.sampled_from([50, 1_000, 100_000]),
)
appends = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([0, 1, 60, -1_000]), st.integers(0, 19)), min_size=20, max_size=60
)


@settings(max_examples=150, deadline=None)
@given(config=configs, others=configs, sent=appends)
def test_a_log_rolls_exactly_where_a_full_check_would(
    config: LogConfig, others: LogConfig, sent: list[tuple[int, int, int]]
) -> None:
    log = open_at(SimDisk(Random(1)), config)
    # A segment keeps the interval that it was made with.
    others = replace(others, index_interval_bytes=config.index_interval_bytes)
    timestamp = now_ms = NOW
    for records, step_ms, event in sent:
        if event == 0:
            log.config = others if log.config is config else config
        if event == 1:
            log.truncate_to(log.end_offset - 2, now_ms)
        now_ms += 30
        timestamp = -1 if step_ms < 0 else max(timestamp, NOW) + step_ms
        data = batch(*["x" * 20] * records, timestamp=timestamp)
        expected = should_roll(log.active, log.config, len(data), timestamp, log.end_offset + records - 1, now_ms)
        segments = len(log.segments)
        log.append_as_leader(data, 0, now_ms)
        assert (len(log.segments) > segments) == expected
