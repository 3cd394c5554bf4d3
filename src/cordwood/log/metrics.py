"""Counters of a directory's logs, for the console only."""

from dataclasses import dataclass


@dataclass(slots=True)
class LogMetrics:
    # Flushed data found damaged when a log was opened; kept beside the segments as `.corrupt`.
    corrupt_bytes: int = 0
    # Torn writes, truncated when a log was opened.
    torn_bytes: int = 0
    recovered_bytes: int = 0
    cleaned_records: int = 0
    cleaned_bytes_read: int = 0
    cleaned_bytes_written: int = 0
