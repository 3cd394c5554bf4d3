"""A group's settings, and those of clients' metrics."""

from __future__ import annotations

GROUP_DESCRIPTIONS = {
    "consumer.assignment.interval.ms": "The least time between two computations of the group's assignment.",
    "consumer.heartbeat.interval.ms": (
        "How often the group's members send heartbeats (KIP-848). A change reaches them with their next heartbeat."
    ),
    "consumer.session.timeout.ms": (
        "How long a member of the group may be silent before it is removed and its partitions go to others (KIP-848)."
    ),
    "share.assignment.interval.ms": "The least time between two computations of the share group's assignment.",
    "share.auto.offset.reset": (
        "Where a share group starts in a partition that it has never read: earliest, latest, or a duration before now."
    ),
    "share.delivery.count.limit": "How many times a record is delivered before the group gives up on it.",
    "share.heartbeat.interval.ms": "How often the share group's members send heartbeats.",
    "share.isolation.level": "Whether the share group sees records of open transactions (read_uncommitted) or not.",
    "share.partition.max.record.locks": "How many records of a partition may be acquired and not yet acknowledged.",
    "share.record.lock.duration.ms": "How long a member keeps a record before it goes to another member.",
    "share.renew.acknowledge.enable": "Whether members may extend the time for which they keep a record.",
    "share.session.timeout.ms": "How long a member of the share group may be silent before it is removed.",
    "streams.assignment.interval.ms": "The least time between two computations of the streams group's assignment.",
    "streams.heartbeat.interval.ms": "How often the streams group's members send heartbeats.",
    "streams.initial.rebalance.delay.ms": (
        "How long a new streams group waits for more members before it assigns tasks."
    ),
    "streams.num.standby.replicas": "How many standby copies each stateful task of the group has.",
    "streams.session.timeout.ms": "How long a member of the streams group may be silent before it is removed.",
}

CLIENT_METRICS_DESCRIPTIONS = {
    "interval.ms": "How often the matching clients push their metrics (KIP-714).",
    "match": "Which clients push: name=regular expression pairs over client_id, client_software_name and so on.",
    "metrics": "Prefixes of the names of the metrics to push; * is all of them, an empty list none.",
}
