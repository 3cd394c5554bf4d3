"""The ports to the outside (Clock, Disk, Network, Random) and their real implementations."""
