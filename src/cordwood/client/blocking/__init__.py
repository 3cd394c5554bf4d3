"""Producer, Consumer and Admin for programs without an event loop: the async clients on an event loop of their own."""
