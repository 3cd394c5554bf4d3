"""Pipelines: files whose function `pipeline(spark)` starts streaming queries, run with a progress display."""
