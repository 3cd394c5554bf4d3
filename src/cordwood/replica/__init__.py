"""Partitions on this broker: leaders and followers, high watermarks, and the requests that wait for them."""
