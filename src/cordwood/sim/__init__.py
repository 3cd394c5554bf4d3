"""The simulated world: a disk that can crash."""
