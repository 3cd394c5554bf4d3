"""Fetches of a consumer: planned, in sessions, buffered, and decoded when taken."""
