"""Numbers of Protobuf's wire format, and conversions of its integers."""

from __future__ import annotations

VARINT, FIXED64, BYTES, START_GROUP, END_GROUP, FIXED32 = 0, 1, 2, 3, 4, 5
"""Types on the wire."""

INT32, INT64, UINT32, UINT64, SINT32, SINT64, SFIXED32, SFIXED64, FLOAT, DOUBLE = range(10)
"""Types of numbers, whichever of the wire's they have."""
