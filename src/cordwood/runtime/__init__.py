"""The ports to the outside (Clock, Disk, Random) and their real implementations."""
