"""From the application's values to bytes and partitions."""
