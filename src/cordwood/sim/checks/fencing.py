"""The latest owner of a transactional id is its only producer: nothing begun later by another one counts."""

from collections.abc import Iterator

from cordwood.sim.histories.history import FinalLog, History, Outcome, Promise
from cordwood.sim.histories.transactions import Fate, Incarnation
from cordwood.sim.partition import Partition, partition_name

from .violation import Violation


def zombies_are_fenced(history: History) -> Iterator[Violation]:
    if history.promise is Promise.PREFIX:
        return
    given: dict[str, list[Incarnation]] = {}
    for incarnation in history.transactions.incarnations:
        given.setdefault(incarnation.transactional_id, []).append(incarnation)
    transactions = history.transactions.by_number()

    def successor_of(number: int, begun_s: float) -> Incarnation | None:
        """Returns the producer that had taken the place of a transaction's producer by then."""
        transaction = transactions[number]
        mine = (transaction.producer_id, transaction.producer_epoch)
        for incarnation in given.get(transaction.transactional_id, []):
            if (incarnation.producer_id, incarnation.producer_epoch) > mine and incarnation.given_s < begun_s:
                return incarnation
        return None

    for send in history.sends:
        if send.transaction >= 0 and send.outcome is Outcome.ACKNOWLEDGED:
            successor = successor_of(send.transaction, send.begun_s)
            if successor is not None:
                yield Violation("a zombie does not write", f"{send}; but {successor}")
    for transaction in history.transactions.transactions:
        if transaction.fate is Fate.COMMITTED:
            successor = successor_of(transaction.number, transaction.commit_begun_s)
            if successor is not None:
                yield Violation("a zombie does not commit", f"{transaction}; but {successor}")
    for partition, log in history.final.items():
        yield from _epochs_go_back(partition, log)


def _epochs_go_back(partition: Partition, log: FinalLog) -> Iterator[Violation]:
    epochs: dict[int, int] = {}
    for seen in log.records:
        if not seen.is_transactional:
            continue
        if seen.producer_epoch < epochs.get(seen.producer_id, -1):
            yield Violation(
                "a producer's epochs never go back",
                f"{partition_name(partition)}@{seen.offset}: producer {seen.producer_id} writes with epoch "
                f"{seen.producer_epoch} after {epochs[seen.producer_id]}",
            )
        epochs[seen.producer_id] = max(seen.producer_epoch, epochs.get(seen.producer_id, -1))
