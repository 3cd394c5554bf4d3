"""Commands about transactions."""
