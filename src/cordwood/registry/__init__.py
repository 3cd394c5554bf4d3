"""The schema registry: Confluent's REST API over `_schemas`, and serializers for producers and consumers.

>>> from cordwood.registry import Deserializer, RegistryClient, Serializer

The names here are loaded when they are used: a node that serves no registry imports nothing of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .bulk import ArrowDeserializer, ArrowSerializer
    from .client import RegisteredSchema, RegistryClient, RegistryRefused
    from .columns.avro_values import arrow_type, avro_to_arrow
    from .serializers.serializer import Deserializer, Serializer
    from .serializers.strategies import (
        record_strategy,
        record_subject,
        topic_record_strategy,
        topic_record_subject,
        topic_strategy,
        topic_subject,
    )

_MODULES = {
    "ArrowDeserializer": "bulk",
    "ArrowSerializer": "bulk",
    "RegisteredSchema": "client",
    "RegistryClient": "client",
    "RegistryRefused": "client",
    "Deserializer": "serializers.serializer",
    "Serializer": "serializers.serializer",
    "arrow_type": "columns.avro_values",
    "avro_to_arrow": "columns.avro_values",
    "record_strategy": "serializers.strategies",
    "record_subject": "serializers.strategies",
    "topic_record_strategy": "serializers.strategies",
    "topic_record_subject": "serializers.strategies",
    "topic_strategy": "serializers.strategies",
    "topic_subject": "serializers.strategies",
}

__all__ = [
    "ArrowDeserializer",
    "ArrowSerializer",
    "Deserializer",
    "RegisteredSchema",
    "RegistryClient",
    "RegistryRefused",
    "Serializer",
    "arrow_type",
    "avro_to_arrow",
    "record_strategy",
    "record_subject",
    "topic_record_strategy",
    "topic_record_subject",
    "topic_strategy",
    "topic_subject",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = import_module(f".{_MODULES[name]}", __name__)
    except ModuleNotFoundError as error:
        from .packages import require_packages

        require_packages(f"{__name__}.{name}")
        if error.name != "pyarrow":
            raise
        raise ImportError(
            f"{__name__}.{name} needs pyarrow, which is not installed: pip install 'cordwood[arrow,registry]'"
        ) from error
    return getattr(module, name)
