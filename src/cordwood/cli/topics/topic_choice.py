"""Resolves the topics that a command names: names, and shell patterns."""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from cordwood.client.cluster import Topic
from cordwood.client.errors import ClientError
from cordwood.spark.sink.names import DEFAULT_LEDGER_TOPIC

if TYPE_CHECKING:
    from cordwood.client.admin.admin import Admin

_WILDCARDS = frozenset("*?[")


class NoSuchTopic(ClientError):
    pass


async def choose_topics(
    admin: "Admin", patterns: Sequence[str], internal: bool, *, missing_ok: bool = False
) -> list[Topic]:
    """Returns topics ordered by name. Raises `NoSuchTopic`, or a `BrokerError` for a missing name."""
    names = [pattern for pattern in patterns if not is_pattern(pattern)]
    if names and len(names) == len(patterns) and not missing_ok:
        return [topic for _, topic in sorted((await admin.client.topics(names)).items())]
    everything = await admin.list_topics(internal=True)
    missing = [name for name in names if name not in everything]
    if missing and not missing_ok:
        # A broker's metadata may be stale: topics named by the user are looked up twice.
        await admin.client.topics(missing)
        everything = dict(admin.client.cluster.topics)
    chosen = choose_visible(everything, patterns, internal)
    visible = [topic.name for topic in chosen]
    unmatched = [pattern for pattern in patterns if is_pattern(pattern) and not _matching(visible, pattern)]
    if unmatched and not missing_ok:
        hint = " (internal topics must be named in full)" if _matching(everything, unmatched[0]) else ""
        raise NoSuchTopic(f"no topic matches {unmatched[0]!r}{hint}")
    return chosen


def choose_visible(topics: Mapping[str, Topic], patterns: Sequence[str], internal: bool) -> list[Topic]:
    """Returns the topics that match a pattern, or all without one. Internal topics only on request or if named."""
    chosen = []
    for name, topic in sorted(topics.items()):
        wanted = not patterns or matches_any(name, patterns)
        if wanted and (internal or not is_internal(topic) or name in patterns):
            chosen.append(topic)
    return chosen


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def is_internal(topic: Topic) -> bool:
    """True for topics of the brokers or of the Spark sink."""
    return topic.is_internal or topic.name == DEFAULT_LEDGER_TOPIC


def is_pattern(text: str) -> bool:
    """Topic names contain none of these characters."""
    return not _WILDCARDS.isdisjoint(text)


def _matching(names: Collection[str], pattern: str) -> bool:
    return any(fnmatchcase(name, pattern) for name in names)
