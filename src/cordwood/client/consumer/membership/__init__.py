"""Group membership: a machine for each protocol, and the driver that runs either."""
