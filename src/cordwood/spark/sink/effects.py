"""Effects of the driver's protocol. Each docstring describes the result."""

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
    """The query's last decision before the ledger was owned; or None."""

    query: str


@dataclass(frozen=True, slots=True)
class ListOpen:
    """The transactions that are open now, of ids with this prefix: a tuple of `LeftTransaction`."""

    prefix: str


@dataclass(frozen=True, slots=True)
class Decide:
    """Writes the entry. Returns None; after an error it may be written or not, which the next owner can find out."""

    query: str
    entry: LedgerEntry


@dataclass(frozen=True, slots=True)
class End:
    """Ends all of them this way, or raises an error. Aborting one that no longer exists is no error. Returns None."""

    transactions: tuple[LeftTransaction, ...]
    commit: bool


@dataclass(frozen=True, slots=True)
class Pause:
    """So much time has passed. None."""

    seconds: float


Effect: TypeAlias = OwnLedger | ReadLedger | ListOpen | Decide | End | Pause
