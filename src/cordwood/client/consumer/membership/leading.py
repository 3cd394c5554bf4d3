"""The leader of a classic group: decodes all members' subscriptions, and assigns partitions."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from cordwood.client.cluster import TopicPartition
from cordwood.client.consumer.assignors.assignor import (
    Assignment,
    Assignor,
    GroupTopics,
    RebalanceProtocol,
    Subscription,
)
from cordwood.client.consumer.assignors.cooperative_sticky import CooperativeStickyAssignor
from cordwood.client.consumer.membership.classic_protocol import read_subscription, write_assignment
from cordwood.client.errors import IllegalState
from cordwood.wire.messages.join_group import JoinGroupResponseMember
from cordwood.wire.messages.sync_group import SyncGroupRequestAssignment


@contextmanager
def asking(assignor: Assignor) -> Iterator[None]:
    """Converts errors of an assignor, which may be custom: the application must see them, and the group must not
    hang."""
    try:
        yield
    except Exception as error:
        raise IllegalState(f"the assignor {assignor.name} failed: {error!r}") from error


class Leading:
    """Leadership of one generation."""

    def __init__(
        self, assignor: Assignor, protocol: RebalanceProtocol, members: Sequence[JoinGroupResponseMember]
    ) -> None:
        """Raises `BadAnswer` if a member's subscription cannot be decoded."""
        self._assignor = assignor
        self._protocol = protocol
        self._subscriptions = {
            member.member_id: read_subscription(member.metadata, member.group_instance_id) for member in members
        }
        self.topics = frozenset(topic for said in self._subscriptions.values() for topic in said.topics)
        """Topics that any member of the group reads."""
        self.is_outdated = False
        """True if the topics have changed since the assignment."""
        self._assigned_from: GroupTopics | None = None

    def keep(self, cluster: GroupTopics) -> None:
        """Keeps the existing assignment."""
        self._assigned_from = self._of_group(cluster)

    def learn(self, cluster: GroupTopics) -> None:
        self.is_outdated = self._assigned_from != self._of_group(cluster)

    def assign(self, cluster: GroupTopics) -> list[SyncGroupRequestAssignment]:
        """Raises `IllegalState` if a custom assignor fails or violates the rules."""
        with asking(self._assignor):
            assignments = self._assignor.assign(self._of_group(cluster), self._subscriptions)
        # The built-in one considers the generations of owned partitions; two members may claim the same one.
        if self._protocol is RebalanceProtocol.COOPERATIVE and self._assignor.name != CooperativeStickyAssignor.name:
            _check_cooperative(self._assignor.name, self._subscriptions, assignments)
        given = {partition.topic for assignment in assignments.values() for partition in assignment.partitions}
        # A custom assignor may assign topics that no member subscribes to.
        self.topics |= given
        self._assigned_from = self._of_group(cluster)
        return [
            SyncGroupRequestAssignment(member_id=member, assignment=write_assignment(assignment))
            for member, assignment in assignments.items()
        ]

    def _of_group(self, cluster: GroupTopics) -> GroupTopics:
        counts, racks = cluster.partition_counts, cluster.partition_racks
        topics = GroupTopics({topic: counts[topic] for topic in sorted(self.topics) if topic in counts})
        if not racks:
            return topics
        partitions = topics.partitions(topics.partition_counts)
        return GroupTopics(
            topics.partition_counts, {partition: racks[partition] for partition in partitions if partition in racks}
        )


def _check_cooperative(
    name: str, subscriptions: Mapping[str, Subscription], assignments: Mapping[str, Assignment]
) -> None:
    """A partition may not move to another member before its owner has revoked it (KIP-429)."""
    added: set[TopicPartition] = set()
    revoked: set[TopicPartition] = set()
    for member, assignment in assignments.items():
        owned = frozenset(subscriptions[member].owned_partitions if member in subscriptions else ())
        added |= frozenset(assignment.partitions) - owned
        revoked |= owned.difference(assignment.partitions)
    if too_soon := sorted(added & revoked):
        raise IllegalState(
            f"the assignor {name} is cooperative, but assigned partitions that other members still own: "
            + ", ".join(str(partition) for partition in too_soon)
        )
