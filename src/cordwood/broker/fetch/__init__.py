"""Fetch: fetch sessions, reads, and parked fetches."""
