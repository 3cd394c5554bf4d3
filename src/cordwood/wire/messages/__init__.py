"""Every message of Kafka's protocol, one module per API.

The modules are generated (tools/generate_messages.py) and imported when they are first asked for::

    request_class(3)                             # MetadataRequest
    metadata_record_class(2)                     # TopicRecord
    coordinator_key_class("group", 1)            # OffsetCommitKey
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Any

from cordwood.wire.messages import index
from cordwood.wire.schema import CoordinatorKey, CoordinatorValue, Message, MetadataRecord, Request, Response


@cache
def request_class(api_key: int) -> type[Request[Any]]:
    """Raises `KeyError` for an API that Kafka does not have."""
    cls: type[Request[Any]] = _load(f"{index.APIS[api_key]}Request")
    return cls


@cache
def response_class(api_key: int) -> type[Response]:
    cls: type[Response] = _load(f"{index.APIS[api_key]}Response")
    return cls


@cache
def metadata_record_class(api_key: int, log: str = "metadata") -> type[MetadataRecord]:
    """A record of `__cluster_metadata`, or of another log in the same framing ("storage": remote log metadata)."""
    cls: type[MetadataRecord] = _load(index.METADATA_RECORDS[log, api_key])
    return cls


@cache
def coordinator_key_class(coordinator: str, record_type: int) -> type[CoordinatorKey]:
    """`coordinator` is "group", "transaction" or "share"."""
    cls: type[CoordinatorKey] = _load(index.COORDINATOR_KEYS[coordinator, record_type])
    return cls


@cache
def coordinator_value_class(coordinator: str, record_type: int) -> type[CoordinatorValue]:
    cls: type[CoordinatorValue] = _load(index.COORDINATOR_VALUES[coordinator, record_type])
    return cls


@cache
def message_class(name: str) -> type[Message]:
    """By its name in Kafka's schemas: "FetchRequest", "TopicRecord", "RequestHeader"."""
    cls: type[Message] = _load(name)
    return cls


def _load(name: str) -> Any:
    return getattr(import_module(f"{__name__}.{index.MODULES[name]}"), name)
