"""A topic's configuration in effect."""

from __future__ import annotations

import pytest

from cordwood.config.definition import ResourceType
from cordwood.config.errors import ConfigError
from cordwood.config.topic import TopicConfigs, check_topic, topic_config
from cordwood.log.config import LogConfig, TimestampType
from cordwood.wire.compression import Codec
from tests.config.kafka_broker import broker, data_dir_broker, data_dir_settings

HOUR_MS = 3_600_000


def test_defaults_are_the_logs_own() -> None:
    config = topic_config(broker(), {})
    assert config.log == LogConfig()
    assert (config.min_insync_replicas, config.unclean_leader_election_enable) == (1, False)


def test_topic_settings_override_broker_defaults() -> None:
    config = broker(log_retention_ms="5", log_segment_bytes="2000000", compression_type="zstd")
    log = topic_config(config, {"retention.ms": "6", "compression.type": "uncompressed"}).log
    assert (log.retention_ms, log.segment_bytes, log.compression_type) == (6, 2_000_000, Codec.NONE)


@pytest.mark.parametrize(
    ("settings", "retention_ms"),
    [
        ({"log_retention_ms": "5", "log_retention_minutes": "6", "log_retention_hours": "7"}, 5),
        ({"log_retention_minutes": "6", "log_retention_hours": "7"}, 6 * 60_000),
        ({"log_retention_hours": "7"}, 7 * HOUR_MS),
        ({}, 168 * HOUR_MS),
        ({"log_retention_hours": "-1"}, -1),
        ({"log_retention_minutes": "-3"}, -1),
    ],
)
def test_finer_units_win_and_coarser_ones_are_multiplied(settings: dict[str, str], retention_ms: int) -> None:
    assert topic_config(broker(**settings), {}).log.retention_ms == retention_ms


def test_flushing_by_time_falls_back_to_the_scheduler() -> None:
    assert topic_config(broker(log_flush_scheduler_interval_ms="5"), {}).log.flush_ms == 5
    config = broker(log_flush_scheduler_interval_ms="5", log_flush_interval_ms="6")
    assert topic_config(config, {}).log.flush_ms == 6


def test_an_internal_size_makes_smaller_segments_than_are_allowed() -> None:
    assert topic_config(broker(), {"internal.segment.bytes": "99"}).log.segment_bytes == 99


@pytest.mark.parametrize(
    ("policy", "compact", "delete"),
    [("compact", True, False), ("delete", False, True), ("compact, delete", True, True), ("", False, False)],
)
def test_policies_of_cleanup(policy: str, compact: bool, delete: bool) -> None:
    log = topic_config(broker(), {"cleanup.policy": policy}).log
    assert (log.compact, log.delete) == (compact, delete)


def test_the_rest_of_a_topic() -> None:
    config = topic_config(
        broker(min_insync_replicas="2"),
        {
            "unclean.leader.election.enable": "true",
            "message.timestamp.type": "LogAppendTime",
            "leader.replication.throttled.replicas": "0:1,1:2",
            "preallocate": "true",
        },
    )
    assert config.min_insync_replicas == 2
    assert config.unclean_leader_election_enable
    assert config.preallocate
    assert config.log.message_timestamp_type is TimestampType.LOG_APPEND_TIME
    assert config.leader_replication_throttled_replicas == ("0:1", "1:2")


def test_topics_with_equal_settings_share_one_configuration() -> None:
    topics = TopicConfigs(broker())
    topics.set_topic("a", {"retention.ms": "5"})
    topics.set_topic("b", {"retention.ms": "5"})
    assert topics.of("a") is topics.of("b")
    assert topics.of("c").log == LogConfig()


def test_changes_of_a_topic_and_of_the_broker_are_seen() -> None:
    topics = TopicConfigs(broker())
    topics.set_topic("a", {"retention.ms": "5"})
    assert topics.of("a").log.retention_ms == 5
    topics.set_broker(broker(log_segment_bytes="2000000"))
    assert topics.of("a").log.segment_bytes == 2_000_000
    topics.set_topic("a", {})
    assert topics.of("a").log.retention_ms == 168 * HOUR_MS
    assert topics.settings_of("a") == {}


def test_a_topics_keys_are_known() -> None:
    with pytest.raises(ConfigError, match=r"^Unknown topic config name: log\.retention\.ms$"):
        check_topic(broker(), {"log.retention.ms": "5"})


def test_every_topic_of_kafkas_data_directory_has_a_configuration() -> None:
    topics = [
        settings for (kind, _), settings in data_dir_settings().items() if kind == ResourceType.TOPIC and settings
    ]
    assert len(topics) > 10
    for settings in topics:
        check_topic(data_dir_broker(), settings)
        log = topic_config(data_dir_broker(), settings).log
        assert log.segment_index_bytes == int(settings.get("segment.index.bytes", "4096"))
