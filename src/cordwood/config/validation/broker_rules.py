"""Constraints between a broker's keys, with Kafka's messages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cordwood.config.definitions.topic import TOPIC
from cordwood.config.errors import ConfigError
from cordwood.config.network.listeners import check_listeners

if TYPE_CHECKING:
    from cordwood.config.broker import BrokerConfig

MEBIBYTE = 1024 * 1024


def check_broker(config: BrokerConfig) -> None:
    """Raises ConfigError for the first broken rule."""
    _check_identity(config)
    _check_log(config)
    _check_replication(config)
    check_listeners(config.listeners, config.items("process.roles"))
    _check_quorum(config)
    _check_connections(config)
    for kind in ("consumer", "share", "streams"):
        _check_groups(config, kind)
    _check_share_limits(config)
    _require(
        config.integer("group.streams.num.standby.replicas") <= config.integer("group.streams.max.standby.replicas"),
        "group.streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
    )


def check_thread_counts(before: BrokerConfig, after: BrokerConfig) -> None:
    """Limits a change of a running broker's thread count to half or double."""
    for name in _THREADS:
        old, new = before.integer(name), after.integer(name)
        failed = f"Dynamic thread count update validation failed for {name}={new}, value should"
        _require(new >= old // 2, f"{failed} be at least half the current value {old}")
        _require(new <= old * 2, f"{failed} not be greater than double the current value {old}")
    old, new = before.integer("log.cleaner.threads"), after.integer("log.cleaner.threads")
    _require(new >= 1, "Log cleaner threads should be at least 1")
    _require(new >= old // 2, f"Log cleaner threads cannot be reduced below half the current value {old}")
    _require(new <= old * 2, f"Log cleaner threads cannot be increased to more than double the current value {old}")


_THREADS = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
)


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)


def _check_identity(config: BrokerConfig) -> None:
    _require(config.node_id == config.integer("broker.id"), "You must set `node.id` to the same value as `broker.id`.")


def _check_log(config: BrokerConfig) -> None:
    _require(_at_least(config, "segment.ms", 1), "log.roll.ms must be greater than or equal to 1")
    _require(_at_least(config, "segment.jitter.ms", 0), "log.roll.jitter.ms must be greater than or equal to 0")
    # Any negative value means unlimited.
    _require(
        config.fallback(TOPIC["retention.ms"]) != 0,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    _require(_at_least(config, "flush.ms", 0), "log.flush.interval.ms must be greater than or equal to 0")
    _require(bool(config.log_dirs), "At least one log directory must be defined via log.dirs or log.dir.")
    missing = [entry for entry in config.items("cordoned.log.dirs") if entry not in config.log_dirs and entry != "*"]
    _require(
        not missing,
        "All entries in cordoned.log.dirs must be present in log.dirs or log.dir. "
        f"Missing entries : {', '.join(missing)}",
    )
    threads = config.integer("log.cleaner.threads")
    _require(
        config.integer("log.cleaner.dedupe.buffer.size") // max(threads, 1) > MEBIBYTE,
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )


def _at_least(config: BrokerConfig, topic_key: str, least: int) -> bool:
    value = config.fallback(TOPIC[topic_key])
    return isinstance(value, int) and value >= least


def _check_replication(config: BrokerConfig) -> None:
    wait_ms = config.integer("replica.fetch.wait.max.ms")
    _require(
        wait_ms <= config.integer("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket "
        "timeouts",
    )
    _require(
        wait_ms <= config.integer("replica.lag.time.max.ms"),
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent "
        "changes in ISR",
    )


def _check_quorum(config: BrokerConfig) -> None:
    voters = config.quorum.static_voters.keys()
    roles, node_id = config.items("process.roles"), config.node_id
    _require(
        bool(voters) or bool(config.items("controller.quorum.bootstrap.servers")),
        "If using process.roles, either controller.quorum.bootstrap.servers must contain the set of bootstrap "
        "controllers or controller.quorum.voters must contain a parseable set of controllers.",
    )
    if "controller" in roles:
        _require(
            not voters or node_id in voters,
            f"If process.roles contains the 'controller' role, the node id {node_id} must be included in the set of "
            f"voters controller.quorum.voters={sorted(voters)}",
        )
    else:
        _require(
            node_id not in voters,
            f"If process.roles contains just the 'broker' role, the node id {node_id} must not be included in the set "
            f"of voters controller.quorum.voters={sorted(voters)}",
        )
        _require(
            not config.flag("controller.quorum.auto.join.enable"),
            "controller.quorum.auto.join.enable is only supported when process.roles contains the 'controller' role.",
        )


def _check_connections(config: BrokerConfig) -> None:
    queued, largest = config.integer("queued.max.request.bytes"), config.integer("socket.request.max.bytes")
    _require(
        queued <= 0 or queued >= largest,
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    overrides = connections_per_address(config.text("max.connections.per.ip.overrides"))
    _require(
        config.integer("max.connections.per.ip") != 0 or bool(overrides),
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
    )
    idle_ms = config.integer("connections.max.idle.ms")
    delay_ms = config.integer("connection.failed.authentication.delay.ms")
    _require(
        idle_ms < 0 or delay_ms < idle_ms,
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from timing out",
    )


def connections_per_address(text: str) -> dict[str, int]:
    """Parses `max.connections.per.ip.overrides`: host or address to its limit."""
    limits = {}
    for entry in filter(None, re.split(r"\s*,\s*", text.strip())):
        host, colon, limit = entry.rpartition(":")
        if not colon or not re.fullmatch(r"[0-9]{1,9}", limit.strip()):
            raise ConfigError(
                "Error parsing configuration property 'max.connections.per.ip.overrides': "
                f"{entry!r} is not host:connections"
            )
        limits[host.strip()] = int(limit)
    invalid = [host for host in limits if not re.fullmatch(r"[0-9a-zA-Z\-%._:\[\]]+", host)]
    if invalid:
        raise ConfigError(f"max.connections.per.ip.overrides contains invalid addresses : {','.join(invalid)}")
    return limits


def _check_groups(config: BrokerConfig, kind: str) -> None:
    for what in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
        _check_between(config, f"group.{kind}.", what)
    heartbeat, session = f"group.{kind}.heartbeat.interval.ms", f"group.{kind}.session.timeout.ms"
    _require(config.integer(heartbeat) < config.integer(session), f"{heartbeat} must be less than {session}")


def _check_share_limits(config: BrokerConfig) -> None:
    for what in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms"):
        _check_between(config, "group.share.", what)


def _check_between(config: BrokerConfig, prefix: str, what: str) -> None:
    name, least, most = f"{prefix}{what}", f"{prefix}min.{what}", f"{prefix}max.{what}"
    _require(config.integer(most) >= config.integer(least), f"{most} must be greater than or equal to {least}")
    _require(config.integer(name) >= config.integer(least), f"{name} must be greater than or equal to {least}")
    _require(config.integer(name) <= config.integer(most), f"{name} must be less than or equal to {most}")
