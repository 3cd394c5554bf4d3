"""Protobuf schemas: parsing and printing .proto texts, descriptors, compatibility."""
