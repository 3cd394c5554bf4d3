"""KRaft: the Raft quorum behind `__cluster_metadata`, as a machine without I/O.

`machine.RaftMachine` takes events (events.py) with the time and returns effects (effects.py), which the shell performs
in order. states/ has one class per state, quorum.py the transitions between them, api/ one module per request,
replica.py what they work on, poll.py what happens as time passes. docs/raft.md describes all of it.
"""
