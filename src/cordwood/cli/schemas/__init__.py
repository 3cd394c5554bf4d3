"""Commands about schemas and their registry."""
