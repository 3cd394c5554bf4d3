"""The schema registry: Confluent's REST API over `_schemas`, and serializers for producers and consumers.

>>> from cordwood.registry import Deserializer, RegistryClient, Serializer

The names here are loaded when they are used: a node that serves no registry imports nothing of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .client import RegisteredSchema, RegistryClient, RegistryRefused
    from .serializers.serializer import Deserializer, Serializer, record_subject, topic_record_subject, topic_subject

_MODULES = {
    "RegisteredSchema": "client",
    "RegistryClient": "client",
    "RegistryRefused": "client",
    "Deserializer": "serializers.serializer",
    "Serializer": "serializers.serializer",
    "record_subject": "serializers.serializer",
    "topic_record_subject": "serializers.serializer",
    "topic_subject": "serializers.serializer",
}

__all__ = [
    "Deserializer",
    "RegisteredSchema",
    "RegistryClient",
    "RegistryRefused",
    "Serializer",
    "record_subject",
    "topic_record_subject",
    "topic_subject",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_MODULES[name]}", __name__), name)
