"""The identity of a committing consumer; producers need it to commit offsets in transactions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """The member's identity in commits and transactional offsets. Kafka's ConsumerGroupMetadata."""

    group_id: str
    generation_id: int = -1
    """With KIP-848, the member epoch."""
    member_id: str = ""
    group_instance_id: str | None = None
