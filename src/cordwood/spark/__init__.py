"""Spark: topics as tables and streams of a PySpark job, read in bulk and written exactly once."""
