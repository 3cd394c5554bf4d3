"""Serializers and deserializers that name the schema of each record, wire-compatible with Confluent's."""
