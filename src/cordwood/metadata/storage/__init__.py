"""The metadata log and its snapshots on disk: written, read, and checked for damage."""
