"""Base of assignors without state."""

from cordwood.client.consumer.assignors.assignor import Assignment
from cordwood.client.consumer.group_metadata import GroupMetadata


class Stateless:
    def subscription_user_data(self, topics: frozenset[str]) -> bytes | None:
        return None

    def on_assignment(self, assignment: Assignment, metadata: GroupMetadata) -> None:
        pass
