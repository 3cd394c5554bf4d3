"""Signs that a node's cluster id or node id is wrong: it was formatted for another cluster, or has the id of another
node. Such a node can't take part, and waiting wouldn't help, so it stops and says what to change."""

import logging
from collections.abc import Collection

from .config import QuorumConfig
from .exceptions import WrongIdentity
from .identity import Endpoint, Node

logger = logging.getLogger(__name__)

# A controller of another cluster is asked again, but rarely: it may be replaced by the right one.
FOREIGN_BACKOFF_MS = 1_000


class IdentityCheck:
    def __init__(self, node_id: int, cluster_id: str, config: QuorumConfig) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        # Long enough for the voters to replace a dead leader, which may be this node before it lost its disk.
        self._patience_ms = 2 * (config.fetch_timeout_ms + config.election_timeout_ms)
        self._refusing: set[Endpoint] = set()
        self._other_leads_since_ms: int | None = None
        self._warned_epoch = -1

    def accepted_by(self, source: Node) -> None:
        """The node is of this cluster."""
        self._refusing.discard(Endpoint(source.host, source.port))

    def refused_by(
        self, source: Node, contacts: Collection[Endpoint | None], *, is_voter: bool, may_be_wrong: bool
    ) -> None:
        """The node is of another cluster. Raises `WrongIdentity` if that is true of a majority of the controllers:
        then it is this node that is wrong. A voter counts itself among the controllers."""
        address = Endpoint(source.host, source.port)
        if address in self._refusing:
            return
        self._refusing.add(address)
        refusing = len(self._refusing & set(contacts))
        if not may_be_wrong or refusing <= (len(contacts) + is_voter) // 2:
            logger.error(
                "The controller at %s:%d is of another cluster: it refuses this node's cluster.id, %s. Check which of "
                "the two is wrong, in the meta.properties of both and in controller.quorum.bootstrap.servers or "
                "controller.quorum.voters",
                *address, self._cluster_id,
            )  # fmt: skip
            return
        told = ", ".join(f"{host}:{port}" for host, port in sorted(self._refusing))
        raise WrongIdentity(
            f"this node's cluster.id is {self._cluster_id}, and the controllers at {told} are of another cluster. "
            "Correct controller.quorum.bootstrap.servers or controller.quorum.voters to name the controllers of this "
            "cluster. Or, for a node of theirs, format empty log.dirs with their cluster id: "
            "cordwood format --config FILE --cluster-id ID"
        )

    def said_to_lead(self, epoch: int, where: Endpoint | None, own: Endpoint | None, state: str, now: int) -> None:
        """Handles a claim that this node leads an epoch, when it doesn't. Raises `WrongIdentity` if the claim names
        another address for longer than a dead leader would be remembered."""
        if where is None or where == own:
            self._other_leads_since_ms = None
        elif self._other_leads_since_ms is None:
            self._other_leads_since_ms = now
        elif now - self._other_leads_since_ms >= self._patience_ms:
            raise WrongIdentity(
                f"node.id {self._node_id} is in use: the controller at {where.host}:{where.port} leads the metadata "
                "quorum with it. Give this node a unique node.id, and format empty log.dirs for it"
            )
        if epoch != self._warned_epoch:
            self._warned_epoch = epoch
            logger.warning(
                "Ignoring the claim that node %d leads epoch %d%s: this node has that id and is %s. It waits for "
                "another leader",
                self._node_id, epoch, "" if where is None else f" at {where.host}:{where.port}", state,
            )  # fmt: skip

    def has_leader(self) -> None:
        """Another node leads, or this one does."""
        self._other_leads_since_ms = None
