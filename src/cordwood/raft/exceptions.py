class InconsistentQuorum(Exception):
    """The quorum has violated a Raft invariant, so this replica cannot continue safely; Kafka stops the node.

    Examples: two leaders in one epoch, or a leader that asks a follower to truncate committed records.
    """


class WrongIdentity(Exception):
    """This node's cluster id or node id doesn't fit the quorum that it has found. The message says what to change."""


class InvalidQuorumState(Exception):
    """The `quorum-state` file is not what Kafka writes."""
