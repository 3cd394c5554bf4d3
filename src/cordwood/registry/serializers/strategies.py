"""Subject name strategies.

A strategy is called for each record with its topic, a function that returns the full name of the record's type, and
whether it is the key's schema.
"""

from __future__ import annotations

from collections.abc import Callable

Strategy = Callable[[str, Callable[[], str], bool], str]


def topic_strategy(topic: str, _record_name: Callable[[], str], is_key: bool) -> str:
    """Confluent's TopicNameStrategy."""
    return topic_subject(topic, is_key=is_key)


def record_strategy(_topic: str, record_name: Callable[[], str], _is_key: bool) -> str:
    """Confluent's RecordNameStrategy: by a type's full name."""
    return record_subject(record_name())


def topic_record_strategy(topic: str, record_name: Callable[[], str], _is_key: bool) -> str:
    """Confluent's TopicRecordNameStrategy."""
    return topic_record_subject(topic, record_name())


def topic_subject(topic: str, *, is_key: bool = False) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def record_subject(record_name: str) -> str:
    return record_name


def topic_record_subject(topic: str, record_name: str) -> str:
    return f"{topic}-{record_name}"
