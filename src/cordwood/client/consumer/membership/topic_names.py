"""Resolves the ids of assigned topics to names (KIP-848)."""

from collections.abc import Collection

from cordwood.client.client import Client
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from cordwood.wire.primitives import Uuid

# The first version with ids (Kafka 3.1; all brokers with KIP-848 have it).
_BY_ID = 12


async def find_topic_names(client: Client, topic_ids: Collection[Uuid]) -> dict[str, Uuid]:
    """Returns ids by name, without those that the broker does not know yet. One request, with the client's retries."""
    asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(topic_ids)]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    response = await client.ask_any(request, at_least=_BY_ID)
    return {
        told.name: told.topic_id
        for told in response.topics
        if told.error_code == ErrorCode.NONE and told.name is not None
    }
