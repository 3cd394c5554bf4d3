"""A cluster of processes on this machine: `cordwood up --brokers 3`, `cordwood.testing.cluster()`.

`layout` says which nodes there are, `folder` keeps them below one directory, `supervisor` runs them.
"""
