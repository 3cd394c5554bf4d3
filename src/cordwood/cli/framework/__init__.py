"""The parts that every command is built of: options, lazy loading, completion, hints."""
