"""The names of transactions that are not ended by their producer: a prepared one (KIP-939), which an application stores
with its own commit; or one that is left to another process."""

from typing import NamedTuple

from cordwood.client.errors import BadSetting
from cordwood.client.producer.identity import ProducerIdentity


class PreparedTxnState(NamedTuple):
    """`str()` returns Kafka's text, "producer id:epoch", to be stored; `parse` reads it. Empty means no transaction.

    state = producer.prepare_transaction() database.commit(rows, transaction=str(state))
    producer.complete_transaction(state)
    """

    producer_id: int = -1
    epoch: int = -1

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}" if self.producer_id >= 0 else ""

    @classmethod
    def parse(cls, text: str) -> "PreparedTxnState":
        if text == "":
            return cls()
        producer_id, colon, epoch = text.partition(":")
        if not colon or not producer_id.isdecimal() or not epoch.isdecimal():
            raise BadSetting(f'not the state of a prepared transaction: "{text}"; it reads "producer id:epoch"')
        return cls(int(producer_id), int(epoch))

    @classmethod
    def of(cls, identity: ProducerIdentity) -> "PreparedTxnState":
        return cls(identity.id, identity.epoch)


class LeftTransaction(NamedTuple):
    """Everything needed to end a transaction from anywhere: `Admin.end_transactions`."""

    transactional_id: str
    producer_id: int
    epoch: int
    is_version_2: bool
    """The version of transactions (KIP-890)."""
