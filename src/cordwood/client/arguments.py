"""Validates and converts the arguments of calls. `BadSetting` names the value and what was expected.

To Python a str is a collection of characters: passed where several values belong, it would be read character by
character.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime
from operator import index
from typing import Any, TypeVar

from cordwood.client.cluster import TopicPartition
from cordwood.client.errors import BadSetting
from cordwood.client.offset_types import OffsetAndMetadata

K = TypeVar("K")
V = TypeVar("V")

ConfigValue = str | int | float | bool
"""A configuration value; brokers store it as text."""
CommittedOffset = OffsetAndMetadata | int | tuple[int, str]
Time = int | datetime
"""Milliseconds since 1970 (UTC), or a datetime with a time zone."""

_A_PARTITION = 'a TopicPartition("topic", 0)'
_TEXTS = (str, bytes, bytearray)
_LAST_OFFSET = (1 << 63) - 1
_LAST_PARTITION = (1 << 31) - 1


# ---- collections


def names_of(given: Iterable[str], what: str) -> list[str]:
    """Removes duplicates; `what` is the plural for messages: "topics"."""
    names = list(dict.fromkeys(_each(given, what, 'names: ["a", "b"]')))
    for name in names:
        name_of(name, f"one of {what}")
    return names


def name_of(given: str, what: str) -> str:
    if not isinstance(given, str) or not given.strip():
        raise BadSetting(f"{what}: {given!r} is not a name; expected a str")
    return given


def values_of(given: Iterable[V], kind: type[V] | tuple[type[V], ...], what: str) -> list[V]:
    """Checks that all values are of that class."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(each.__name__ for each in kinds)
    values = list(_each(given, what, expected))
    for value in values:
        if not isinstance(value, kinds) or (bool not in kinds and isinstance(value, bool)):
            raise BadSetting(f"one of {what} is {value!r}; expected {expected}")
    return values


def choices_of(given: Iterable[str], known: Collection[str], what: str) -> list[str]:
    """Returns the values in their canonical spelling; case does not matter."""
    spelled = {name.lower(): name for name in known}
    chosen = names_of(given, what)
    for name in chosen:
        if name.lower() not in spelled:
            raise BadSetting(f"{name!r} is not one of {what}: {', '.join(known)}")
    return [spelled[name.lower()] for name in chosen]


def numbers_of(given: Iterable[int], what: str) -> list[int]:
    return [number_of(value, f"one of {what}") for value in _each(given, what, "whole numbers")]


def number_of(given: int, what: str) -> int:
    number = _whole(given)
    if number is None:
        raise BadSetting(f"{what} is {given!r}; expected a whole number")
    return number


def mapping_of(given: Mapping[K, V], what: str, expected: str) -> Mapping[K, V]:
    if not isinstance(given, Mapping):
        raise BadSetting(f"{what} are {given!r}; expected a dict of {expected}")
    return given


def by_name(given: Mapping[str, V], what: str, expected: str) -> dict[str, V]:
    return {
        name_of(name, f"a key of {what}"): value
        for name, value in mapping_of(given, what, f"names with {expected}").items()
    }


# ---- partitions


def partition_of(given: TopicPartition | tuple[str, int]) -> TopicPartition:
    """Accepts a plain tuple, too."""
    if not isinstance(given, tuple) or len(given) != 2:
        raise BadSetting(f"{given!r} is not a partition; expected {_A_PARTITION}")
    topic, number = given[0], _whole(given[1])
    if not isinstance(topic, str) or not topic.strip():
        raise BadSetting(f"{given!r}: {topic!r} is not a topic name; expected {_A_PARTITION}")
    if number is None or not 0 <= number <= _LAST_PARTITION:
        raise BadSetting(f"{given!r}: {given[1]!r} is not a partition number; expected {_A_PARTITION}")
    return TopicPartition(topic, number)


def partitions_of(given: Iterable[TopicPartition], what: str = "partitions") -> list[TopicPartition]:
    if isinstance(given, tuple) and _looks_like_one(given):
        raise BadSetting(f"{what} is a single partition, {given!r}; expected a list: [{_A_PARTITION}]")
    return [partition_of(partition) for partition in _each(given, what, f"partitions: [{_A_PARTITION}]")]


def partitions_given(given: tuple[Any, ...], *, none_is_all: bool = True) -> list[TopicPartition]:
    """Accepts separate arguments, or all partitions in one collection; `given` are the arguments."""
    if len(given) == 1 and isinstance(given[0], Collection) and not _looks_like_one(given[0]):
        chosen = partitions_of(given[0])
        if not chosen and none_is_all:
            # No argument means all, which an empty list must not.
            raise BadSetting("the list of partitions is empty; pass some, or no argument for all assigned partitions")
        return chosen
    return [partition_of(partition) for partition in given]


def by_partition(
    given: Mapping[TopicPartition, K], read: Callable[[TopicPartition, K], V], what: str, expected: str
) -> dict[TopicPartition, V]:
    read_by: dict[TopicPartition, V] = {}
    for key, value in mapping_of(given, what, f"{_A_PARTITION} with {expected}").items():
        partition = partition_of(key)
        read_by[partition] = read(partition, value)
    return read_by


# ---- offsets and times


def offsets_of(given: Mapping[TopicPartition, CommittedOffset]) -> dict[TopicPartition, OffsetAndMetadata]:
    return by_partition(given, offset_of, "offsets", "an offset")


def offset_of(partition: TopicPartition, given: CommittedOffset) -> OffsetAndMetadata:
    """Accepts a number, `(number, metadata)`, or an OffsetAndMetadata."""
    told: Any = given if isinstance(given, tuple) else (given,)
    if not 1 <= len(told) <= 3:
        raise BadSetting(f"{partition}: {given!r} is not an offset; expected an int or an OffsetAndMetadata")
    offset, metadata, epoch = (*told, "", None)[:3] if len(told) == 1 else (*told, None)[:3]
    number = _whole(offset)
    if number is None or not 0 <= number <= _LAST_OFFSET:
        raise BadSetting(f"{partition}: {offset!r} is not an offset; expected an int of 0 or more")
    if metadata is None:
        # Brokers use the same value if there is none.
        metadata = ""
    if not isinstance(metadata, str):
        raise BadSetting(f"{partition}: the offset's metadata is {metadata!r}; expected a str")
    if epoch is not None and _whole(epoch) is None:
        raise BadSetting(f"{partition}: the leader epoch is {epoch!r}; expected an int or None")
    return OffsetAndMetadata(number, metadata, epoch)


def time_of(partition: TopicPartition, given: Time) -> int:
    """Returns ms. Negative values have special meanings and are refused."""
    timestamp = spec_of(partition, given)
    if timestamp < 0:
        raise BadSetting(f"{partition}: {given!r} is not a timestamp; expected milliseconds since 1970")
    return timestamp


def spec_of(partition: TopicPartition, given: Time) -> int:
    """Accepts a time, or a special value (`OffsetSpec`)."""
    if isinstance(given, datetime):
        if given.tzinfo is None:
            raise BadSetting(f"{partition}: {given!r} has no time zone; use datetime(..., tzinfo=timezone.utc)")
        return round(given.timestamp() * 1000)
    timestamp = _whole(given)
    if timestamp is None:
        raise BadSetting(
            f"{partition}: {given!r} is not a timestamp; expected milliseconds since 1970 as an int, such as "
            "int(time.time() * 1000), or a datetime with a time zone"
        )
    return timestamp


def timeout_of(given: float | None, what: str = "timeout_ms") -> float | None:
    if given is None:
        return None
    if isinstance(given, bool) or not isinstance(given, int | float) or not given >= 0:
        raise BadSetting(f"{what} is {given!r}; expected milliseconds, 0 or more")
    return given


# ---- configurations


def config_text(name: str, given: ConfigValue | None) -> str | None:
    """Formats a value as brokers write it."""
    if given is None or isinstance(given, str):
        return given
    if isinstance(given, bool):
        return "true" if given else "false"
    if not isinstance(given, int | float):
        raise BadSetting(f"{name}: {given!r} is not a config value; expected a str, a number or a bool")
    return str(given)


# ---- helpers


def _each(given: Iterable[V], what: str, expected: str) -> Iterable[V]:
    if isinstance(given, _TEXTS):
        raise BadSetting(f"{what} is a single str, {given!r}; expected a list of {expected}")
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        raise BadSetting(f"{what} are {given!r}; expected a list of {expected}")
    return given


def _looks_like_one(given: object) -> bool:
    """True for a single partition, rather than several."""
    return isinstance(given, TopicPartition) or (
        isinstance(given, tuple) and bool(given) and not isinstance(given[0], tuple)
    )


def _whole(given: object) -> int | None:
    """Accepts integers of other libraries, but no bools."""
    if isinstance(given, bool):
        return None
    try:
        return index(given)  # type: ignore[arg-type]
    except TypeError:
        return None
