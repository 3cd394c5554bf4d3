"""Changes a running broker's log levels (KIP-412), which are not stored."""

from __future__ import annotations

from collections.abc import Container, Sequence

from cordwood.config.requests.changes import Change, Operation
from cordwood.shard.refusal import Refusal
from cordwood.wire.errors import ErrorCode

ROOT_LOGGER = "root"
# log4j's levels, as Kafka's clients send them.
LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")


def check_logger_changes(
    node_id: int, resource_name: str, changes: Sequence[Change], loggers: Container[str]
) -> Refusal | None:
    """Checks whether the levels of these loggers may be changed; either all are changed, or none."""
    try:
        asked_id = int(resource_name)
    except ValueError:
        return _bad_request(f"Node id must be an integer, but it is: {resource_name}")
    if asked_id != node_id:
        return _bad_request(f"Unexpected node id. Expected {node_id}, but received {resource_name}")
    return next((refusal for change in changes if (refusal := _check(change, loggers))), None)


def _check(change: Change, loggers: Container[str]) -> Refusal | None:
    if change.operation not in (Operation.SET, Operation.DELETE):
        known = change.operation in tuple(Operation)
        named = f"{Operation(change.operation).name} operation" if known else f"Unknown operation {change.operation}"
        return _bad_request(f"{named} is not allowed for the BROKER_LOGGER resource")
    if change.name not in loggers:
        return Refusal(ErrorCode.INVALID_CONFIG, f"Logger {change.name} does not exist!")
    if change.operation == Operation.DELETE:
        if change.name == ROOT_LOGGER:
            return _bad_request(f"Removing the log level of the {ROOT_LOGGER} logger is not allowed")
        return None
    if change.value not in LEVELS:
        return Refusal(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
            f"Valid log levels are {', '.join(LEVELS)}",
        )
    return None


def _bad_request(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)
