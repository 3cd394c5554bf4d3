"""A topic's settings."""

from __future__ import annotations

TOPIC_DESCRIPTIONS = {
    "cleanup.policy": (
        "What happens to old records: delete removes whole segments by age or size, compact keeps the last record of "
        "each key, and both together do both. An empty list keeps everything."
    ),
    "compression.gzip.level": "The gzip level to use when compression.type is gzip; -1 is gzip's own default.",
    "compression.lz4.level": "The LZ4 level to use when compression.type is lz4; higher levels are slower and smaller.",
    "compression.type": (
        "How batches are stored. producer keeps what the producer chose; any other value has the broker decompress and "
        "compress batches that arrive otherwise, which costs CPU time."
    ),
    "compression.zstd.level": "The Zstandard level to use when compression.type is zstd; higher is slower and smaller.",
    "delete.retention.ms": (
        "How long compaction keeps tombstones (records without a value) and transaction markers, so that a reader that "
        "started before can still see deletions."
    ),
    "file.delete.delay.ms": "How long a deleted segment stays on disk, renamed to .deleted, before it is unlinked.",
    "flush.messages": (
        "Forces a flush to disk after this many records; 1 makes every acknowledged record survive a power failure. By "
        "default the operating system decides when to write."
    ),
    "flush.ms": "Forces a flush to disk when records have been unflushed for this long.",
    "follower.replication.throttled.replicas": (
        "The replicas whose fetching is throttled to follower.replication.throttled.rate: partition:broker pairs, or * "
        "for all of the topic."
    ),
    "index.interval.bytes": (
        "How many bytes of records lie between two entries of the offset index. Fewer make seeks more precise and the "
        "index larger."
    ),
    "internal.segment.bytes": "As segment.bytes, without its lower limit. For Kafka's own tests.",
    "leader.replication.throttled.replicas": (
        "The replicas whose leaders throttle what they send to leader.replication.throttled.rate: partition:broker "
        "pairs, or * for all of the topic."
    ),
    "local.retention.bytes": "How many bytes of a partition to keep on local disks under tiered storage.",
    "local.retention.ms": "How long to keep records on local disks under tiered storage.",
    "max.compaction.lag.ms": "The longest that a record may stay uncompacted: after it, its segment is compacted.",
    "max.message.bytes": (
        "The largest batch that the topic takes, after compression. Producers with larger ones get MESSAGE_TOO_LARGE; "
        "consumers need no setting, the first batch of a fetch is returned at any size."
    ),
    "message.timestamp.after.max.ms": (
        "How far a record's timestamp may lie ahead of the broker's clock; a producer whose record is further ahead "
        "gets INVALID_TIMESTAMP. Ignored when message.timestamp.type is LogAppendTime."
    ),
    "message.timestamp.before.max.ms": (
        "How far a record's timestamp may lie behind the broker's clock; a producer whose record is older gets "
        "INVALID_TIMESTAMP. Ignored when message.timestamp.type is LogAppendTime."
    ),
    "message.timestamp.type": (
        "Whether a record's timestamp is the one that the producer gave it (CreateTime) or the time at which the "
        "broker appended it (LogAppendTime)."
    ),
    "min.cleanable.dirty.ratio": (
        "The share of a log that must be uncompacted before compaction looks at it again. Lower values save space and "
        "cost more disk reads and writes."
    ),
    "min.compaction.lag.ms": (
        "How long a record is safe from compaction, so that readers can see every version of a key."
    ),
    "min.insync.replicas": (
        "How many replicas must have a record before a producer with acks=all is answered. With fewer in sync, such "
        "producers get NOT_ENOUGH_REPLICAS."
    ),
    "preallocate": "Allocates a segment's whole file when it is created.",
    "remote.log.copy.disable": "Stops copying segments of the topic to tiered storage.",
    "remote.log.delete.on.disable": (
        "Deletes the data in tiered storage when tiered storage is turned off for the topic."
    ),
    "remote.storage.enable": "Turns on tiered storage for the topic.",
    "retention.bytes": (
        "How large a partition may grow before its oldest segments are deleted, under cleanup.policy=delete; -1 is no "
        "limit. It counts for each partition, not for the topic."
    ),
    "retention.ms": (
        "How long records are kept under cleanup.policy=delete; -1 is no limit. A segment goes when its youngest "
        "record is older than this, so that some records stay longer."
    ),
    "segment.bytes": (
        "The size at which a partition starts a new segment file. Retention and compaction work on whole segments, and "
        "not on the one that is being written."
    ),
    "segment.index.bytes": "The largest size of a segment's offset index; a full index starts a new segment.",
    "segment.jitter.ms": (
        "A random delay, up to this long, that is taken off segment.ms so that topics do not roll at once."
    ),
    "segment.ms": "The age at which a partition starts a new segment even if the last one is not full.",
    "unclean.leader.election.enable": (
        "Whether a replica that is not in sync may become the leader when no other is left. The partition is available "
        "again, and records that only the others had are lost."
    ),
}
