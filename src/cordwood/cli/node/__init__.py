"""Commands that start nodes."""
