"""Creates topics automatically (`auto.create.topics.enable`)."""

from __future__ import annotations

from cordwood.broker.broker import Broker
from cordwood.wire.errors import ErrorCode
from cordwood.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest

_DEFAULT = -1
# How long to wait for a created topic to appear in this broker's metadata.
_PATIENCE_S = 1.0


async def create_missing(broker: Broker, names: list[str]) -> dict[str, ErrorCode]:
    """Creates topics with the defaults; returns the errors for those that don't exist afterwards."""
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
