"""The group coordinator: groups of the classic and of the consumer protocol (KIP-848), and committed offsets."""
