"""What can be wrong with stored metadata."""


class InvalidMetadata(Exception):
    """Records that contradict each other or cannot be read: the log is damaged, or its writer was wrong."""
