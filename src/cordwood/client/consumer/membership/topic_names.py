"""The names of topics that a group was given by their ids (KIP-848)."""

from collections.abc import Collection

from cordwood.client.client import Client
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from cordwood.wire.primitives import Uuid

# The first version that is asked by ids (Kafka 3.1; any broker that has KIP-848 has it).
_BY_ID = 12


async def find_topic_names(client: Client, topic_ids: Collection[Uuid]) -> dict[str, Uuid]:
    """By name; those that the broker does not know yet are left out. Asks once, within the client's retries."""
    asked = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in sorted(topic_ids)]
    request = MetadataRequest(topics=asked, allow_auto_topic_creation=False)
    response = await client.ask_any(request, at_least=_BY_ID)
    return {
        told.name: told.topic_id
        for told in response.topics
        if told.error_code == ErrorCode.NONE and told.name is not None
    }
