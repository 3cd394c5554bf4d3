"""Compaction: which log is next, the job in a thread, and its memory."""
