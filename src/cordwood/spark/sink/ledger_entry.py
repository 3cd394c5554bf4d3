"""A decision in the ledger: the value of a record whose key is the query's id."""

import json
from dataclasses import dataclass

from cordwood.client.errors import BadAnswer
from cordwood.client.producer.transactions.prepared import LeftTransaction

_VERSION = 2
# Version 1 had no sweeps.
_KNOWN_VERSIONS = (1, _VERSION)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """This batch consists of these transactions, and of no others, for good."""

    batch: int
    run: str
    transactions: tuple[LeftTransaction, ...]
    sweeps: int = 0
    """Number of times, up to here, that the query's open transactions were aborted without a batch being decided:
    transactions that began at another number may be among them."""

    def encode(self) -> bytes:
        # Ids have a common prefix, which is written once: an entry of many tasks must fit into a record.
        prefix = _common_prefix([transaction.transactional_id for transaction in self.transactions])
        content = {
            "version": _VERSION,
            "batch": self.batch,
            "run": self.run,
            "sweeps": self.sweeps,
            "prefix": prefix,
            "transactions": [
                [left.transactional_id.removeprefix(prefix), left.producer_id, left.epoch, int(left.is_version_2)]
                for left in self.transactions
            ],
        }
        return json.dumps(content, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> "LedgerEntry":
        """Raises `BadAnswer` for an invalid entry, or one of a newer version."""
        try:
            content = json.loads(value)
            if content["version"] not in _KNOWN_VERSIONS:
                raise BadAnswer(
                    f"the ledger has an entry of version {content['version']}; this release supports {_VERSION}"
                )
            prefix = content["prefix"]
            return cls(
                int(content["batch"]),
                str(content["run"]),
                tuple(
                    LeftTransaction(prefix + name, int(producer_id), int(epoch), bool(is_version_2))
                    for name, producer_id, epoch, is_version_2 in content["transactions"]
                ),
                int(content.get("sweeps", 0)),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise BadAnswer(f"the ledger contains an unreadable record: {value[:80]!r}") from error


def _common_prefix(names: list[str]) -> str:
    if not names:
        return ""
    first, last = min(names), max(names)
    length = next(
        (place for place, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first)
    )
    return first[:length]
