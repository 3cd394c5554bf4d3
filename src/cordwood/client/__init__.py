"""The client's core: connections to brokers, what they say of the cluster, requests to the right one of them."""
