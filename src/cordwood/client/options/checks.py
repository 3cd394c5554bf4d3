"""Validates combinations of settings, as Kafka's clients do, and derives settings from others."""

from collections.abc import Collection
from dataclasses import replace
from typing import TypeVar, cast

from cordwood.client.consumer.assignors.choice import choose_assignors, common_protocol
from cordwood.client.consumer.offsets.reset_strategy import ResetStrategy
from cordwood.client.consumer.settings import ConsumerSettings
from cordwood.client.errors import BadSetting
from cordwood.client.options.values import INT_MAX
from cordwood.client.producer.settings import ProducerSettings
from cordwood.client.settings import Settings

S = TypeVar("S", bound=Settings)

# More could be reordered by a retry: brokers remember this many batches of a producer.
_MAX_IN_FLIGHT = 5
_LEVELS = {"gzip": (-1, 9), "lz4": (1, 17), "zstd": (-131_072, 22)}
# With KIP-848 these are broker settings.
_CLASSIC_ONLY = ("partition_assignment_strategy", "heartbeat_interval_ms", "session_timeout_ms")


def completed(settings: S, given: Collection[str]) -> S:
    """Returns the settings with derived ones added. Raises `BadSetting`."""
    if "reconnect_backoff_ms" in given and "reconnect_backoff_max_ms" not in given:
        # As in Kafka: an explicit back-off takes precedence.
        settings = replace(settings, reconnect_backoff_max_ms=settings.reconnect_backoff_ms)
    if isinstance(settings, ProducerSettings):
        return cast(S, _producer(settings, given))
    if isinstance(settings, ConsumerSettings):
        return cast(S, _consumer(settings, given))
    return settings


def _producer(settings: ProducerSettings, given: Collection[str]) -> ProducerSettings:
    settings = _idempotence(settings, "enable_idempotence" in given)
    if settings.transactional_id is not None and not settings.enable_idempotence:
        raise BadSetting("a transactional_id needs enable_idempotence, and with that acks=all and retries")
    if settings.transaction_two_phase_commit_enable and "transaction_timeout_ms" in given:
        raise BadSetting(
            "transaction_timeout_ms cannot be combined with transaction_two_phase_commit_enable: "
            "two-phase transactions do not expire"
        )
    least_ms = min(settings.linger_ms + settings.request_timeout_ms, INT_MAX)
    if settings.delivery_timeout_ms < least_ms:
        if "delivery_timeout_ms" in given:
            raise BadSetting(
                f"delivery_timeout_ms is {settings.delivery_timeout_ms}; expected at least {least_ms}, "
                "which is linger_ms + request_timeout_ms"
            )
        settings = replace(settings, delivery_timeout_ms=least_ms)
    least, most = _LEVELS.get(settings.compression_type, (None, None))
    level = settings.compression_level
    if level is not None and least is not None and most is not None and not least <= level <= most:
        raise BadSetting(f"compression_level is {level}; expected {least} to {most} for {settings.compression_type}")
    return settings


def _idempotence(settings: ProducerSettings, wanted: bool) -> ProducerSettings:
    """Disables idempotence if acks or retries do not allow it, unless it was requested explicitly."""
    if not settings.enable_idempotence:
        return settings
    if settings.max_in_flight_requests_per_connection > _MAX_IN_FLIGHT:
        raise BadSetting(
            f"max_in_flight_requests_per_connection is {settings.max_in_flight_requests_per_connection}; "
            f"expected at most {_MAX_IN_FLIGHT} with enable_idempotence"
        )
    problem = None
    if settings.retries == 0:
        problem = "retries is 0; expected more with enable_idempotence"
    elif settings.acks != -1:
        problem = f"acks is {settings.acks}; expected all with enable_idempotence"
    if problem is None:
        return settings
    if wanted:
        raise BadSetting(problem)
    return replace(settings, enable_idempotence=False)


def _consumer(settings: ConsumerSettings, given: Collection[str]) -> ConsumerSettings:
    ResetStrategy.parse(settings.auto_offset_reset)
    if settings.group_protocol == "consumer":
        for name in _CLASSIC_ONLY:
            if name in given:
                raise BadSetting(f"{name} cannot be set with group_protocol=consumer: the brokers control it")
    else:
        if settings.group_remote_assignor:
            raise BadSetting("group_remote_assignor cannot be set with group_protocol=classic")
        if settings.heartbeat_interval_ms >= settings.session_timeout_ms:
            raise BadSetting(
                f"heartbeat_interval_ms is {settings.heartbeat_interval_ms}; "
                f"expected less than session_timeout_ms, {settings.session_timeout_ms}"
            )
        common_protocol(choose_assignors(settings.partition_assignment_strategy))
    if settings.group_id is None:
        return _without_group(settings, given)
    return settings


def _without_group(settings: ConsumerSettings, given: Collection[str]) -> ConsumerSettings:
    if settings.group_instance_id is not None:
        raise BadSetting("group_instance_id needs a group_id")
    if "enable_auto_commit" in given and settings.enable_auto_commit:
        raise BadSetting("enable_auto_commit needs a group_id: offsets are committed to a group")
    return replace(settings, enable_auto_commit=False)
