"""Schemas of all three types: parsing, canonical and normalised forms, compatibility. No I/O, no state."""
