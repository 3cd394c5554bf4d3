"""What the machine wants sent: a request, to whom it goes, and in which versions."""

from dataclasses import dataclass
from enum import Enum
from typing import Any

from cordwood.wire.schema import Request


class To(Enum):
    """The broker that coordinates the transactional id, or a group."""

    TRANSACTION_COORDINATOR = "transaction"
    GROUP_COORDINATOR = "group"


@dataclass(frozen=True, slots=True)
class Ask:
    """At most one is on its way. `Transactions.answered` or `failed` follows."""

    request: Request[Any]
    to: To
    key: str
    """The transactional id or the group's."""
    at_least: int = 0
    at_most: int | None = None
    look_up: bool = False
    """The coordinator that was found before is not it any more."""
