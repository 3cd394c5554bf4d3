"""Counts the subscriptions of a group's members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .member import Member


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched, in which version of the metadata and when."""

    topics: frozenset[str] = frozenset()
    version: int = 0
    timestamp_ms: int = 0


@dataclass(slots=True)
class Subscriptions:
    # Topic → number of members that name it.
    by_name: dict[str, int] = field(default_factory=dict)
    # Regular expression → number of members that use it.
    regexes: dict[str, int] = field(default_factory=dict)
    # Topic → number of regular expressions that match it, as far as they are resolved.
    by_regex: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Subscriptions:
        return Subscriptions(dict(self.by_name), dict(self.regexes), dict(self.by_regex))

    def add(self, member: Member) -> None:
        _count(self.by_name, member.topic_names, 1)
        if member.topic_regex:
            _count(self.regexes, (member.topic_regex,), 1)

    def remove(self, member: Member) -> None:
        _count(self.by_name, member.topic_names, -1)
        if member.topic_regex:
            _count(self.regexes, (member.topic_regex,), -1)

    def add_resolved(self, resolved: ResolvedRegex) -> None:
        _count(self.by_regex, resolved.topics, 1)

    def remove_resolved(self, resolved: ResolvedRegex) -> None:
        _count(self.by_regex, resolved.topics, -1)

    def __contains__(self, topic: str) -> bool:
        return topic in self.by_name or topic in self.by_regex

    def __iter__(self) -> Iterator[str]:
        """Yields each topic once."""
        return iter({**self.by_name, **self.by_regex} if self.by_regex else self.by_name)

    def is_homogeneous(self, member_count: int) -> bool:
        """True if all members subscribe to the same names, or all to the same regular expression."""
        if not self.regexes:
            return not self.by_regex and all(count == member_count for count in self.by_name.values())
        if next(iter(self.regexes.values())) != member_count:
            return False
        return not self.by_name and all(count == 1 for count in self.by_regex.values())


def _count(counts: dict[str, int], names: Iterable[str], change: int) -> None:
    for name in names:
        count = counts.get(name, 0) + change
        if count > 0:
            counts[name] = count
        else:
            counts.pop(name, None)
