"""A producer's identity: id, epoch, transactional id."""

from typing import NamedTuple


class ProducerIdentity(NamedTuple):
    """From InitProducerId; makes appends idempotent, and a transaction one's own."""

    id: int
    epoch: int
