"""The topic that keeps all schemas: created if it is not there, refused if it would lose some."""

from __future__ import annotations

from cordwood.client.admin.admin import Admin
from cordwood.client.admin.configs import ConfigResource, ConfigResourceType
from cordwood.client.admin.topics import NewTopic
from cordwood.client.errors import BrokerError
from cordwood.wire.errors import ErrorCode

from .errors import UnusableTopic

DEFAULT_TOPIC = "_schemas"
_MOST_REPLICAS = 3


async def prepare_topic(admin: Admin, topic: str) -> None:
    """Raises `UnusableTopic`, or a `ClientError`."""
    if topic not in await admin.list_topics(internal=True):
        brokers = len((await admin.describe_cluster()).brokers)
        wanted = NewTopic(
            topic,
            partitions=1,
            replication_factor=min(brokers, _MOST_REPLICAS),
            configs={"cleanup.policy": "compact"},
        )
        try:
            await admin.create_topics([wanted])
        except BrokerError as error:
            # Another registry may have been quicker.
            if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                raise
    await admin.until_topics_led([topic])
    described = (await admin.describe_topics([topic]))[topic]
    if len(described.partitions) != 1:
        raise UnusableTopic(
            f"Topic {topic} has {len(described.partitions)} partitions; it is to have 1, so that schemas have one order"
        )
    resource = ConfigResource(ConfigResourceType.TOPIC, topic)
    entries = (await admin.describe_configs([resource], ["cleanup.policy"]))[resource]
    policy = next((entry.value for entry in entries if entry.name == "cleanup.policy"), None)
    if policy != "compact":
        raise UnusableTopic(
            f"Topic {topic} has cleanup.policy={policy}, by which schemas are deleted after a while. Repair it with:\n"
            f"  cordwood config set topic {topic} cleanup.policy=compact"
        )
