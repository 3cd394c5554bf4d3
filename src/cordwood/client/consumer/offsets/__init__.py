"""Offsets of a consumer: where it begins, where it stands, and what is committed."""
