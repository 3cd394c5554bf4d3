"""Observers that look at a cluster from outside during a run."""
