"""Who commits: known to producers, too, which commit a consumer's offsets within their transactions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Who commits: what a commit and a transaction's offsets carry. Kafka's ConsumerGroupMetadata."""

    group_id: str
    generation_id: int = -1
    """The member epoch with KIP-848."""
    member_id: str = ""
    group_instance_id: str | None = None
