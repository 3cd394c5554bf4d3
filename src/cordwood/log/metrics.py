"""What a directory's logs count. Read by the console; nothing here decides anything."""

from dataclasses import dataclass


@dataclass(slots=True)
class LogMetrics:
    # Flushed data that was found damaged when a log was opened; it is kept beside the segments as `.corrupt`.
    corrupt_bytes: int = 0
    # Writes that a crash had torn, cut off when a log was opened.
    torn_bytes: int = 0
    recovered_bytes: int = 0
    cleaned_records: int = 0
    cleaned_bytes_read: int = 0
    cleaned_bytes_written: int = 0
