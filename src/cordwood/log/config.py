"""The topic settings that a partition's log uses: Kafka's names (snake case) and defaults."""

from dataclasses import dataclass, field
from enum import Enum

from cordwood.wire.compression import Codec

MAX_INT64 = 2**63 - 1
DAY_MS = 24 * 60 * 60 * 1000


class TimestampType(Enum):
    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
    compact: bool = False
    delete: bool = True
    # None keeps the producer's compression (`producer`); Codec.NONE is Kafka's `uncompressed`.
    compression_type: Codec | None = None
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = 60_000
    flush_messages: int = MAX_INT64
    flush_ms: int = MAX_INT64
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = MAX_INT64
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = 3_600_000
    message_timestamp_before_max_ms: int = MAX_INT64
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1_073_741_824
    segment_index_bytes: int = 10_485_760
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    # Uncompressed batches are stored as sent, except for offsets. Derived once, because every append needs it.
    keeps_batches: bool = field(init=False)

    def __post_init__(self) -> None:
        keeps_codec = self.compression_type in (None, Codec.NONE)
        keeps = keeps_codec and self.message_timestamp_type is TimestampType.CREATE_TIME
        object.__setattr__(self, "keeps_batches", keeps)

    @property
    def compression_level(self) -> int | None:
        match self.compression_type:
            case Codec.GZIP:
                return self.compression_gzip_level
            case Codec.LZ4:
                return self.compression_lz4_level
            case Codec.ZSTD:
                return self.compression_zstd_level
            case _:
                return None

    @property
    def roll_ms(self) -> int:
        """The age at which a segment is rolled; a compacted one early enough for its compaction lag."""
        return min(self.max_compaction_lag_ms, self.segment_ms) if self.compact else self.segment_ms

    @property
    def uses_log_append_time(self) -> bool:
        return self.message_timestamp_type is TimestampType.LOG_APPEND_TIME
