"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Members join, one of them leads and computes the assignment, and the coordinator distributes it. Requests are decided in
`join`, `sync`, `heartbeat` and `leave`; timeouts in `rebalance` and `sessions`.
"""
