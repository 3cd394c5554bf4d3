"""A node's part in the metadata quorum: the machine of `raft`, run over a disk, a network and a clock."""
