"""Producer, Consumer and Admin for programs without an event loop: the async clients, each with its own event loop."""
