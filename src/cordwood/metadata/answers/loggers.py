"""Python's loggers, as Kafka's clients know a broker's (KIP-412): `root` and its children, with log4j's levels.

A changed level lasts until the node stops; it is not stored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from cordwood.config.requests.changes import Change, Operation
from cordwood.config.requests.loggers import ROOT_LOGGER, check_logger_changes
from cordwood.shard.refusal import Refusal

# log4j's levels in Python's numbers, finest first; TRACE is finer than any that Python has a name for.
_LEVELS = {
    "TRACE": 5,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}


def logger_levels() -> dict[str, str]:
    """Returns every existing logger by name, with its effective level."""
    made = logging.root.manager.loggerDict
    levels = {name: _level_of(logger) for name, logger in made.items() if isinstance(logger, logging.Logger)}
    return {ROOT_LOGGER: _level_of(logging.root), **levels}


def alter_loggers(
    broker_id: int, resource_name: str, changes: Sequence[Change], *, validate_only: bool
) -> Refusal | None:
    """All changes hold, or none does."""
    refusal = check_logger_changes(broker_id, resource_name, changes, logger_levels())
    if refusal is None and not validate_only:
        for change in changes:
            logger = logging.getLogger(None if change.name == ROOT_LOGGER else change.name)
            # Without its own level it uses its parent's.
            is_set = change.operation == Operation.SET and change.value is not None
            logger.setLevel(_LEVELS[change.value or ""] if is_set else logging.NOTSET)
    return refusal


def _level_of(logger: logging.Logger) -> str:
    """Returns the finest log4j level that it lets through."""
    level = logger.getEffectiveLevel()
    return next((name for name, number in _LEVELS.items() if number >= level), "FATAL")
