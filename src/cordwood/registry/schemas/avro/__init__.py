"""Avro schemas: parsing, printing as Avro's Java library does, and schema resolution as a check."""
