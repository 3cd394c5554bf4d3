"""Commands about a cluster, its nodes and their configuration."""
