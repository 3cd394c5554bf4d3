"""Producer, Consumer and Admin for programs without an event loop: the async ones, run on a loop of their own."""
