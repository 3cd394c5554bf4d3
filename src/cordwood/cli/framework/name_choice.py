"""Resolves names and shell patterns of groups and transactional ids, which may contain any character."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from cordwood.cli.topics.topic_choice import is_pattern
from cordwood.client.errors import ClientError


class NoSuchName(ClientError):
    """A name or pattern matches nothing; the message suggests similar names."""

    def __init__(self, noun: str, name: str, known: Collection[str], advice: str = "") -> None:
        near = get_close_matches(name, known, n=3)
        hints = [hint for hint in (f"did you mean {' or '.join(near)}?" if near else "", advice) if hint]
        super().__init__(f"there is no {noun} {name}" + (f" ({' '.join(hints)})" if hints else ""))


def choose_names(noun: str, known: Sequence[str], patterns: Sequence[str], *, missing_ok: bool = False) -> list[str]:
    """Returns the matching names in order; all of them without a pattern. Raises a `ClientError` for a pattern without
    a match."""
    for pattern in patterns:
        if missing_ok or any(_matches(name, pattern) for name in known):
            continue
        if is_pattern(pattern):
            raise ClientError(f"no {noun} matches {pattern!r}")
        raise NoSuchName(noun, pattern, known)
    return [name for name in known if not patterns or any(_matches(name, pattern) for pattern in patterns)]


def _matches(name: str, pattern: str) -> bool:
    # A name that looks like a pattern need not match itself.
    return name == pattern or fnmatchcase(name, pattern)
