"""The plan for a schema of any type."""

from __future__ import annotations

from cordwood.registry.schemas.schema import AVRO, PROTOBUF, Schema

from .plans import Plan


def plan_for(reader: Schema, message: str | None = None) -> Plan:
    """`message` is the full name of a Protobuf message; None: the first. Raises `Untypable`."""
    # Imported on first use: most topics have one format, and each format needs its own libraries.
    if reader.type == AVRO:
        from cordwood.registry.schemas.avro.schema import AvroSchema

        from .avro_plan import AvroPlan

        assert isinstance(reader, AvroSchema)
        return AvroPlan(reader)
    if reader.type == PROTOBUF:
        from cordwood.registry.schemas.protobuf.schema import ProtobufSchema

        from .protobuf_plan import ProtobufPlan

        assert isinstance(reader, ProtobufSchema)
        return ProtobufPlan(reader, message)
    from cordwood.registry.schemas.json.schema import JsonSchema

    from .json_plan import JsonPlan

    assert isinstance(reader, JsonSchema)
    return JsonPlan(reader)
