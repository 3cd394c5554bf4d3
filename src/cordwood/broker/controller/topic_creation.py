"""Topics that come to be because somebody asked for them (`auto.create.topics.enable`)."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

_DEFAULT = -1
# How long a created topic may take to be in this broker's metadata.
_PATIENCE_S = 1.0


async def create_missing(broker: Broker, names: list[str]) -> dict[str, ErrorCode]:
    """Creates topics with the defaults; what a client is to be told of those that are not there now."""
    request = CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=_DEFAULT, replication_factor=_DEFAULT, assignments=[], configs=[])
            for name in names
        ],
        timeout_ms=broker.config.integer("request.timeout.ms"),
    )
    response = await broker.controller.ask(request)
    created = [topic.name for topic in response.topics if topic.error_code == ErrorCode.NONE]
    await broker.until(lambda: all(name in broker.image.topics.ids for name in created), _PATIENCE_S)
    errors: dict[str, ErrorCode] = {}
    for topic in response.topics:
        match ErrorCode(topic.error_code):
            case ErrorCode.NONE | ErrorCode.TOPIC_ALREADY_EXISTS:
                pass
            case ErrorCode.INVALID_REPLICATION_FACTOR | ErrorCode.INVALID_TOPIC_EXCEPTION as error:
                errors[topic.name] = error
            case _:
                errors[topic.name] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return errors
