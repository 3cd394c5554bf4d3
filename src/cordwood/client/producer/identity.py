"""A producer's identity: id, epoch, transactional id."""

from typing import NamedTuple


class ProducerIdentity(NamedTuple):
    """Assigned by InitProducerId; makes appends idempotent, and ties them to a transaction."""

    id: int
    epoch: int
