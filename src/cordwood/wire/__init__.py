"""The protocol: bytes to objects and back. No I/O, no clock."""
