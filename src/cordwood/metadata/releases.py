"""Kafka's releases: the `metadata.version` that each one has, and the levels that features begin with there."""

from collections.abc import Mapping

from .features import (
    BOOTSTRAP_LEVELS,
    ELR_VERSION,
    GROUP_VERSION,
    KRAFT_VERSION,
    REQUIRED_METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    SUPPORTED,
    TOLERATED,
    TRANSACTION_VERSION,
)
from .image import METADATA_VERSION
from .versions import LATEST_LEVEL, MINIMUM_LEVEL

_NAMES = (
    *("3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1", "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2"),
    *("3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0", "3.9-IV0"),
    *("4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3", "4.1-IV0", "4.1-IV1", "4.2-IV0", "4.2-IV1", "4.3-IV0"),
)
# Release to `metadata.version`.
RELEASES: dict[str, int] = {name: level for level, name in enumerate(_NAMES, MINIMUM_LEVEL)}
assert RELEASES[_NAMES[-1]] == LATEST_LEVEL

# Feature to (the `metadata.version` from which on new clusters begin with it, the level that they begin with).
_DEFAULTS: dict[str, tuple[int, int]] = {
    ELR_VERSION: (26, 1),
    GROUP_VERSION: (22, 1),
    SHARE_VERSION: (28, 1),
    STREAMS_VERSION: (29, 1),
    TRANSACTION_VERSION: (24, 2),
}
_KNOWN = {**SUPPORTED, **TOLERATED}


class UnsupportedLevels(Exception):
    """Levels that a new cluster cannot have; the text says why."""


def release_level(name: str) -> int:
    """The `metadata.version` of `4.0-IV1`, or of the last one in `4.0` or `4.0.2`. Raises UnsupportedLevels."""
    asked = ".".join(name.split(".")[:2])
    found = [level for release, level in RELEASES.items() if asked in (release, release.partition("-")[0])]
    if not found:
        raise UnsupportedLevels(f"Unknown metadata.version '{name}'. Supported metadata.version are: {_all()}")
    return found[-1]


def release_name(level: int) -> str:
    """Raises UnsupportedLevels."""
    if level not in range(MINIMUM_LEVEL, LATEST_LEVEL + 1):
        raise UnsupportedLevels(f"No MetadataVersion with feature level {level}. Supported are: {_all()}")
    return _NAMES[level - MINIMUM_LEVEL]


def initial_levels(requested: Mapping[str, int], release: str | None, *, is_dynamic: bool) -> dict[str, int]:
    """The levels of a new cluster, as from `kafka-storage format` of 4.3: those of the release (None: 4.3), overridden
    by the requested ones. kraft.version isn't among them: the quorum keeps it in its own records; `is_dynamic` says
    whether it is 1. Raises UnsupportedLevels."""
    if METADATA_VERSION in requested and release is not None:
        raise UnsupportedLevels(f"Use --release-version instead of --feature {METADATA_VERSION}=X to avoid ambiguity.")
    version = requested.get(METADATA_VERSION, LATEST_LEVEL if release is None else release_level(release))
    release_name(version)
    for name in requested:
        if name not in (METADATA_VERSION, *_DEFAULTS, KRAFT_VERSION):
            supported = ", ".join(sorted([*_DEFAULTS, KRAFT_VERSION]))
            raise UnsupportedLevels(f"Unsupported feature: {name}. Supported features are: {supported}")
    _check_kraft_version(requested.get(KRAFT_VERSION), is_dynamic)
    levels = {METADATA_VERSION: version}
    for name, (since, default) in sorted(_DEFAULTS.items()):
        level = requested.get(name, default if version >= since else 0)
        _check_level(name, level, version)
        if level:
            levels[name] = level
    return levels


def _check_kraft_version(requested: int | None, is_dynamic: bool) -> None:
    if requested is None:
        return
    flags = "one of the flags --standalone, --initial-controllers, or --no-initial-controllers is used"
    if requested == 0 and is_dynamic:
        raise UnsupportedLevels(
            f"Cannot set {KRAFT_VERSION} to 0 if controller.quorum.voters is empty and {flags}. For dynamic "
            f"controllers support, try removing the --feature flag for {KRAFT_VERSION}."
        )
    if requested != 0 and not is_dynamic:
        raise UnsupportedLevels(
            f"Cannot set {KRAFT_VERSION} to {requested} unless controller.quorum.voters is empty and {flags}. For "
            "dynamic controllers support, try using one of --standalone, --initial-controllers, or "
            "--no-initial-controllers and removing controller.quorum.voters."
        )
    _check_level(KRAFT_VERSION, requested, LATEST_LEVEL)


def _check_level(name: str, level: int, version: int) -> None:
    if level not in _KNOWN[name]:
        known = _KNOWN[name]
        raise UnsupportedLevels(f"No feature:{name} with feature level {level}: it has {known.low} to {known.high}")
    needed = REQUIRED_METADATA_VERSION.get((name, level), 0)
    if version < needed:
        raise UnsupportedLevels(
            f"{name} could not be set to {level} because it depends on {METADATA_VERSION} level {needed} "
            f"({release_name(needed)})"
        )


def _all() -> str:
    return ", ".join(_NAMES)


assert {**initial_levels({}, None, is_dynamic=True)}.items() >= BOOTSTRAP_LEVELS.items()
