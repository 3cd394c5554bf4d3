"""What people and their tools see of a running node: metrics."""
