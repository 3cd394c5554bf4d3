"""Being a member of a group: a machine for each protocol, and the driver that runs either."""
