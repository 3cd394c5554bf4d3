"""Effects of the driver's protocol. Each docstring says what its result is."""

from dataclasses import dataclass
from typing import TypeAlias

from cordwood.client.producer.transactions.prepared import LeftTransaction
from cordwood.spark.sink.ledger_entry import LedgerEntry


@dataclass(frozen=True, slots=True)
class OwnLedger:
    """From now on no earlier owner can decide anything. None."""

    query: str


@dataclass(frozen=True, slots=True)
class ReadLedger:
    """The query's last decision, of all that were taken before the ledger was owned; or None."""

    query: str


@dataclass(frozen=True, slots=True)
class ListOpen:
    """The transactions that are open now, of ids with this prefix: a tuple of `LeftTransaction`."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Decide:
    """The entry stands, for good. None; if an error is raised it may stand or not, which its next owner can tell."""

    query: str
    entry: LedgerEntry


@dataclass(frozen=True, slots=True)
class End:
    """All of them have ended so, now or before; or an error is raised. To abort one that is gone is no error. None."""

    transactions: tuple[LeftTransaction, ...]
    commit: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """So much time has passed. None."""

    seconds: float


Effect: TypeAlias = OwnLedger | ReadLedger | ListOpen | Decide | End | Pause
