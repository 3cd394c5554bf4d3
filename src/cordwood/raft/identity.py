"""Names of replicas and addresses of nodes, as the quorum's requests carry them (KIP-853)."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from cordwood.wire.primitives import ZERO_UUID, Uuid, uuid_text

NO_DIRECTORY: Uuid = ZERO_UUID
NO_NODE = -1


class ReplicaKey(NamedTuple):
    """A replica: its node id, and the id of its metadata directory where that is known.

    A node that lost its disk comes back under the same id with another directory, and is another replica.
    """

    id: int
    directory_id: Uuid = NO_DIRECTORY

    def matches(self, other: "ReplicaKey") -> bool:
        """True if `other` is this replica. A key without a directory, as static voters have, matches by id alone."""
        return self.id == other.id and self.directory_id in (NO_DIRECTORY, other.directory_id)

    def __str__(self) -> str:
        return str(self.id) if self.directory_id == NO_DIRECTORY else f"{self.id}-{uuid_text(self.directory_id)}"


class Endpoint(NamedTuple):
    host: str
    port: int


Endpoints: TypeAlias = Mapping[str, Endpoint]
"""The addresses of a node by listener name; equal when names, hosts and ports are."""


class Node(NamedTuple):
    """The destination of a request. Bootstrap servers, whose ids are not known, have ids from -2 downwards."""

    id: int
    host: str
    port: int


class LeaderAndEpoch(NamedTuple):
    # None: the epoch has no leader that is known.
    leader_id: int | None
    epoch: int


class VersionRange(NamedTuple):
    """Levels of the kraft.version feature, both included."""

    low: int
    high: int

    def __contains__(self, level: object) -> bool:
        return isinstance(level, int) and self.low <= level <= self.high
