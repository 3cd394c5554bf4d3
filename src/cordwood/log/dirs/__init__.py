"""Log directories (`log.dirs`): the partitions on each disk, and moves between them."""
