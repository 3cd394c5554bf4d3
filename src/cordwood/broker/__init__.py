"""The broker: request handlers, and the assembly of its parts."""
