"""Files that every schema may import without a reference: Google's well-known types and Confluent's own."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from google.protobuf import descriptor_pb2

_GOOGLE = [
    "any",
    "api",
    "descriptor",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
]
_COMMON_TYPES = [
    "calendar_period",
    "color",
    "date",
    "datetime",
    "dayofweek",
    "decimal",
    "expr",
    "fraction",
    "interval",
    "latlng",
    "localized_text",
    "money",
    "month",
    "phone_number",
    "postal_address",
    "quaternion",
    "timeofday",
]

# Interface facts: Confluent's clients leave these imports out of their references.
_CONFLUENT = {
    "confluent/meta.proto": """
        syntax = "proto3";
        package confluent;
        import "google/protobuf/descriptor.proto";
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
        extend google.protobuf.FileOptions { Meta file_meta = 1088; }
        extend google.protobuf.MessageOptions { Meta message_meta = 1088; }
        extend google.protobuf.FieldOptions { Meta field_meta = 1088; }
        extend google.protobuf.EnumOptions { Meta enum_meta = 1088; }
        extend google.protobuf.EnumValueOptions { Meta enum_value_meta = 1088; }
    """,
    "confluent/type/decimal.proto": """
        syntax = "proto3";
        package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }
    """,
}


def is_known(name: str) -> bool:
    return known_text(name) is not None or known_descriptor(name) is not None


def known_text(name: str) -> str | None:
    return _CONFLUENT.get(name)


@cache
def known_descriptor(name: str) -> descriptor_pb2.FileDescriptorProto | None:
    """Returns Google's file of this name, or None."""
    folder, _, base = name.removesuffix(".proto").rpartition("/")
    if not name.endswith(".proto"):
        return None
    if (folder == "google/protobuf" and base in _GOOGLE) or (folder == "google/type" and base in _COMMON_TYPES):
        module = import_module(f"{folder.replace('/', '.')}.{base}_pb2")
        made = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(made)
        return made
    return None
