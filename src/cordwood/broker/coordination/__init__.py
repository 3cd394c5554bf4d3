"""The coordinators on this broker, their topics, and how handlers ask them."""
