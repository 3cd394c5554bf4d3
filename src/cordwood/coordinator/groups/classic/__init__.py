"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Members join, one of them leads and computes who gets what, and the coordinator hands that on. What comes of a request
is decided by `join`, `sync`, `heartbeat` and `leave`; what comes of time passing by `rebalance` and `sessions`.
"""
