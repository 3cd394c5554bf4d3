"""Parses and validates a setting's value as Kafka does; errors say what is allowed."""

from collections.abc import Callable, Iterable, Mapping
from types import NoneType
from typing import Any, NamedTuple, get_args

from cordwood.client.addresses import parse_bootstrap
from cordwood.client.errors import BadSetting

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


class Given(NamedTuple):
    """A setting as given by the user."""

    spelled: str
    value: Any


def read_value(given: Given, name: str, annotation: Any) -> Any:
    """Converts a value to the type of the field `name`. Raises `BadSetting`."""
    if name in _READERS:
        return _READERS[name](given)
    kinds = set(get_args(annotation)) or {annotation}
    if given.value is None and NoneType in kinds:
        return None
    if bool in kinds:
        return _boolean(given)
    if int in kinds:
        return _whole_number(given, *RANGES.get(name, (0, INT_MAX)))
    return _word(given, WORDS[name]) if name in WORDS else _text(given)


# Kafka's ranges, if they are not 0 to 2147483647.
RANGES: Mapping[str, tuple[int, int]] = {
    "buffer_memory": (0, LONG_MAX),
    "compression_gzip_level": (-1, 9),
    "compression_level": (-131_072, 22),
    "compression_lz4_level": (1, 17),
    "compression_zstd_level": (-131_072, 22),
    "connections_max_idle_ms": (-1, LONG_MAX),
    "heartbeat_interval_ms": (1, INT_MAX),
    "linger_ms": (0, LONG_MAX),
    "max_block_ms": (0, LONG_MAX),
    "max_in_flight_requests_per_connection": (1, INT_MAX),
    "max_poll_interval_ms": (1, INT_MAX),
    "max_poll_records": (1, INT_MAX),
    "metadata_max_age_ms": (0, LONG_MAX),
    "metadata_max_idle_ms": (5_000, LONG_MAX),
    "metadata_recovery_rebootstrap_trigger_ms": (0, LONG_MAX),
    "partitioner_availability_timeout_ms": (0, LONG_MAX),
    "receive_buffer_bytes": (-1, INT_MAX),
    "reconnect_backoff_max_ms": (0, LONG_MAX),
    "reconnect_backoff_ms": (0, LONG_MAX),
    "retry_backoff_max_ms": (0, LONG_MAX),
    "retry_backoff_ms": (0, LONG_MAX),
    "send_buffer_bytes": (-1, INT_MAX),
    "session_timeout_ms": (1, INT_MAX),
    "socket_connection_setup_timeout_max_ms": (1, LONG_MAX),
    "socket_connection_setup_timeout_ms": (1, LONG_MAX),
    "transaction_timeout_ms": (1, INT_MAX),
}

WORDS: Mapping[str, tuple[str, ...]] = {
    "group_protocol": ("classic", "consumer"),
    "isolation_level": ("read_uncommitted", "read_committed"),
    "metadata_recovery_strategy": ("rebootstrap", "none"),
    "security_protocol": ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
}
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}

# Kafka's own serializers, for configurations written for Java clients. None uses bytes; as a serializer it also accepts
# str.
_JAVA_SERIALIZERS: Mapping[str, Callable[[Any], Any] | None] = {
    "org.apache.kafka.common.serialization.StringSerializer": None,
    "org.apache.kafka.common.serialization.ByteArraySerializer": None,
    "org.apache.kafka.common.serialization.BytesSerializer": None,
    "org.apache.kafka.common.serialization.StringDeserializer": bytes.decode,
    "org.apache.kafka.common.serialization.ByteArrayDeserializer": None,
    "org.apache.kafka.common.serialization.BytesDeserializer": None,
}
_JAVA_PARTITIONERS = {"org.apache.kafka.clients.producer.RoundRobinPartitioner": "round_robin"}


def _boolean(given: Given) -> bool:
    value = given.value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if not isinstance(value, bool):
        raise refusal(given, "true or false")
    return value


def _whole_number(given: Given, least: int, most: int) -> int:
    value = given.value
    if isinstance(value, str):
        try:
            value = int(value.strip())
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise refusal(given, f"a whole number from {least} to {most}")
    return value


def _text(given: Given) -> str:
    if not isinstance(given.value, str):
        raise refusal(given, "a str")
    return given.value


def _word(given: Given, words: tuple[str, ...]) -> str:
    found = given.value.strip().lower() if isinstance(given.value, str) else None
    for word in words:
        if word.lower() == found:
            return word
    raise refusal(given, f"one of {', '.join(words)}")


def _addresses(given: Given) -> Any:
    value = given.value
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        parts = list(value)
        if all(isinstance(part, str) for part in parts):
            value = ",".join(parts)
    if not isinstance(value, str):
        raise refusal(given, '"host:port", several separated by commas, or a list of them')
    return parse_bootstrap(value)


def _acks(given: Given) -> int:
    value = given.value
    acks = None if isinstance(value, bool) else _ACKS.get(str(value).strip().lower())
    if acks is None:
        raise refusal(given, '0, 1 or "all"')
    return acks


def _codec(given: Given) -> str:
    # Other Python clients use None for it.
    return "none" if given.value is None else _word(given, _CODECS)


def _callable(given: Given) -> Any:
    value = given.value
    if isinstance(value, str) and value in _JAVA_SERIALIZERS:
        return _JAVA_SERIALIZERS[value]
    if value is not None and not callable(value):
        raise refusal(given, "a callable, or None")
    return value


def _partitioner(given: Given) -> Any:
    value = given.value
    if isinstance(value, str):
        return _word(Given(given.spelled, _JAVA_PARTITIONERS.get(value, value)), ("round_robin",))
    if value is not None and not callable(value):
        raise refusal(given, 'a callable, "round_robin", or None')
    return value


def _list(given: Given) -> tuple[Any, ...]:
    value = given.value
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if not isinstance(value, Iterable) or isinstance(value, bytes | Mapping):
        raise refusal(given, "a list, or a str separated by commas")
    return tuple(value)


def _interceptors(given: Given) -> tuple[Any, ...]:
    interceptors = _list(given)
    if any(isinstance(interceptor, str | type) for interceptor in interceptors):
        raise refusal(given, "a list of objects, not of their classes")
    return interceptors


def _name(given: Given) -> str | None:
    """Kafka doesn't allow an empty one."""
    value = None if given.value is None else _text(given)
    if value == "":
        raise refusal(given, "a name of at least one character, or None")
    return value


_READERS: Mapping[str, Callable[[Given], Any]] = {
    "acks": _acks,
    "bootstrap_servers": _addresses,
    "compression_type": _codec,
    "group_instance_id": _name,
    "interceptors": _interceptors,
    "key_deserializer": _callable,
    "key_serializer": _callable,
    "partition_assignment_strategy": _list,
    "partitioner": _partitioner,
    "ssl_cipher_suites": _list,
    "ssl_enabled_protocols": _list,
    "transactional_id": _name,
    "value_deserializer": _callable,
    "value_serializer": _callable,
}


def refusal(given: Given, expected: str) -> BadSetting:
    return BadSetting(f"{given.spelled} is {given.value!r}; expected {expected}")
