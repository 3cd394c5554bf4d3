"""The start of a node: its log directories, formatted and checked, before any role runs."""
