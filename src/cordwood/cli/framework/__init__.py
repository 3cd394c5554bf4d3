"""The framework of all commands: options, lazy loading, completion, hints."""
