"""Subscriptions of a classic group's members, if they are consumers.

Members' metadata is opaque to the coordinator; that of consumers begins with a version and their topics, and all
versions start like the first.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from cordwood.wire.codec import decode
from cordwood.wire.exceptions import DecodeError
from cordwood.wire.messages.data.consumer_protocol_subscription import ConsumerProtocolSubscription

from .member import ClassicMember

_log = logging.getLogger(__name__)

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION_BYTES = 2


def subscribed_topics(
    protocol_type: str, protocol_name: str | None, members: Iterable[ClassicMember]
) -> frozenset[str] | None:
    """Returns None if unknown."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    topics: set[str] = set()
    for member in members:
        if protocol_name is None:
            return None
        metadata = member.known_metadata(protocol_name)
        if metadata is None:
            # From another generation.
            continue
        try:
            topics.update(_topics(metadata))
        except DecodeError as error:
            _log.warning("Ignoring the subscription of %s, which cannot be decoded: %s", member, error)
            return None
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str]:
    return decode(ConsumerProtocolSubscription, 0, metadata[_VERSION_BYTES:], strict=False).topics
