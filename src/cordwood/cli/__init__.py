"""The `cordwood` command."""
