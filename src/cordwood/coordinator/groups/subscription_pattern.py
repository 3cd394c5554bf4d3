"""Regular expressions by which members subscribe to topics (KIP-848), in RE2's syntax; the coordinator matches them.

RE2 takes time linear in the length of a name for any pattern, so no client can keep a broker busy with one. It is
imported with the first pattern: most brokers never see one. Kafka uses RE2's port to Java, which differs in two
details: it refuses `\\C` (any one byte) and accepts a backslash before a letter that is not ASCII.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

_log = logging.getLogger(__name__)

LARGEST_SET = 10_000
"""Limit of instructions for all patterns matched in one pass, well below RE2's memory limit for a set."""


def check_pattern(pattern: str) -> None:
    """Raises INVALID_REGULAR_EXPRESSION for a pattern that RE2 rejects."""
    try:
        _compile(pattern)
    except InvalidPattern as invalid:
        message = f"SubscribedTopicRegex `{pattern}` is not a valid RE2 regular expression: {invalid}"
        raise Refusal(ErrorCode.INVALID_REGULAR_EXPRESSION, message) from None


def resolve_patterns(patterns: Iterable[str], topic_names: Collection[str]) -> dict[str, frozenset[str]]:
    """Returns each pattern's topics: all those whose whole name it matches, including internal ones.

    An invalid pattern, stored by a broker with another version of RE2, matches nothing.
    """
    topics: dict[str, frozenset[str]] = {}
    sizes: dict[str, int] = {}
    # RE2 works on bytes, and would encode each text again.
    names = {name.encode(): name for name in topic_names}
    for pattern in patterns:
        topics[pattern] = frozenset()
        try:
            compiled = _compile(pattern)
        except InvalidPattern as invalid:
            _log.error("The regular expression %r is not valid and matches no topic: %s", pattern, invalid)
            continue
        if compiled.programsize > LARGEST_SET:
            topics[pattern] = frozenset(name for encoded, name in names.items() if compiled.fullmatch(encoded))
        else:
            sizes[pattern] = compiled.programsize
    for together in _sets(sizes):
        topics.update(_match_together(together, names))
    return topics


class InvalidPattern(Exception):
    """RE2 rejects a pattern."""


def _compile(pattern: str) -> Any:
    import re2  # type: ignore[import-untyped]

    try:
        return re2.compile(pattern, _options())
    except re2.error as error:
        [reason] = error.args
        raise InvalidPattern(reason.decode(errors="replace")) from None


def _options() -> Any:
    import re2

    options = re2.Options()
    # Otherwise RE2 writes to standard error, past every logger.
    options.log_errors = False
    return options


def _sets(sizes: dict[str, int]) -> Iterator[list[str]]:
    """Splits the patterns into as many sets as needed."""
    together: list[str] = []
    size = 0
    for pattern, pattern_size in sizes.items():
        if together and size + pattern_size > LARGEST_SET:
            yield together
            together, size = [], 0
        together.append(pattern)
        size += pattern_size
    if together:
        yield together


def _match_together(patterns: list[str], names: dict[bytes, str]) -> dict[str, frozenset[str]]:
    """Matches all patterns in one pass over the names: 100 patterns and 10,000 names take 17 ms, and 2.3 s one by
    one."""
    import re2

    matcher = re2.Set.FullMatchSet(_options())
    for pattern in patterns:
        matcher.Add(pattern)
    matcher.Compile()
    matched: list[list[str]] = [[] for _ in patterns]
    for encoded, name in names.items():
        for number in matcher.Match(encoded) or ():
            matched[number].append(name)
    return {pattern: frozenset(found) for pattern, found in zip(patterns, matched, strict=True)}
