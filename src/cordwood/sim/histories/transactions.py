"""The history of transactional producers: their transactions, and fencing by successors."""

from dataclasses import dataclass
from enum import Enum


class Fate(Enum):
    """A producer's knowledge of the outcome of its transaction."""

    # No commit was requested, so it must not be committed.
    NOT_COMMITTED = "not committed"
    # It has been asked for, and not been answered with success.
    UNKNOWN = "unknown"
    COMMITTED = "committed"


@dataclass(slots=True, eq=False)
class Transaction:
    number: int
    client: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    begun_s: float
    fate: Fate = Fate.NOT_COMMITTED
    # When it was asked for to be committed, and when that was answered.
    commit_begun_s: float = float("inf")
    commit_ended_s: float = float("inf")
    # An external coordinator has recorded it as committed: the owner of the transactional id commits it (KIP-939).
    is_in_ledger: bool = False

    def __str__(self) -> str:
        return (
            f"transaction {self.number} of {self.transactional_id} by {self.client} as producer "
            f"{self.producer_id}/{self.producer_epoch} from {self.begun_s:.6f}, "
            f"commit {self.commit_begun_s:.6f}-{self.commit_ended_s:.6f}: {self.fate.value}"
        )


@dataclass(frozen=True, slots=True)
class Incarnation:
    """A producer id and epoch assigned for a transactional id; the previous owner is fenced."""

    client: str
    transactional_id: str
    producer_id: int
    producer_epoch: int
    given_s: float

    def __str__(self) -> str:
        return (
            f"{self.client} was given {self.transactional_id} as producer {self.producer_id}/{self.producer_epoch} "
            f"at {self.given_s:.6f}"
        )


class TransactionHistory:
    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.incarnations: list[Incarnation] = []
        # A transform's input, by output value: (group, topic, partition, offset).
        self.inputs: dict[bytes, tuple[str, str, int, int]] = {}

    def by_number(self) -> dict[int, Transaction]:
        return {transaction.number: transaction for transaction in self.transactions}
