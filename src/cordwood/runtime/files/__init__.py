"""The real Disk, and other access to files."""
