"""The consumer: its subscription, positions, fetched records and group membership."""
