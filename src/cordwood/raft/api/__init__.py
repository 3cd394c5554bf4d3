"""The quorum's requests, one module each: how a request is built, answered, and how its response is taken."""
