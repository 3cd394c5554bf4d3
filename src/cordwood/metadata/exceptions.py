"""Errors in stored metadata."""


class InvalidMetadata(Exception):
    """Records that contradict each other or cannot be read: the log is damaged, or its writer was wrong."""


class DamagedMetadata(InvalidMetadata):
    """The metadata log lacks records that are known to be committed; the text has the place and the remedies."""
