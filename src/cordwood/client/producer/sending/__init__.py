"""From full batches to responses: which batches go where and when, with their sequence numbers."""
