"""Names and patterns, as shells have them, of what may be called anything: groups, transactional ids."""

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from cordwood.cli.topics.topic_choice import is_pattern
from cordwood.client.errors import ClientError


class NoSuchName(ClientError):
    """With some that are like it, and other advice."""

    def __init__(self, noun: str, name: str, known: Collection[str], advice: str = "") -> None:
        near = get_close_matches(name, known, n=3)
        hints = [hint for hint in (f"did you mean {' or '.join(near)}?" if near else "", advice) if hint]
        super().__init__(f"there is no {noun} {name}" + (f" ({' '.join(hints)})" if hints else ""))


def choose_names(noun: str, known: Sequence[str], patterns: Sequence[str], *, missing_ok: bool = False) -> list[str]:
    """Those that are meant, in their order; all without a pattern. Raises a `ClientError` for what means none."""
    for pattern in patterns:
        if missing_ok or any(_matches(name, pattern) for name in known):
            continue
        if is_pattern(pattern):
            raise ClientError(f"no {noun} matches {pattern!r}")
        raise NoSuchName(noun, pattern, known)
    return [name for name in known if not patterns or any(_matches(name, pattern) for pattern in patterns)]


def _matches(name: str, pattern: str) -> bool:
    # A name may look like a pattern, which then need not match it.
    return name == pattern or fnmatchcase(name, pattern)
