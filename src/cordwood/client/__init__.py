"""The client's core: connections to brokers, metadata, and requests to the right broker."""
