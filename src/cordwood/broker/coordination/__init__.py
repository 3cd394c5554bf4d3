"""The coordinators on this broker, their topics, and the handlers' access to them."""
