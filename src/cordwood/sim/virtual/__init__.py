"""The simulated machine: virtual time, network, disks and processes."""
