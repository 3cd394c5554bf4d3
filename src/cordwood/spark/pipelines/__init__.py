"""Pipelines: files whose function `pipeline(spark)` starts streaming queries, run with their progress in sight."""
