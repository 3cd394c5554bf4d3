"""The cluster's metadata: Kafka's records, the image that they make, the log that keeps them, and the controller."""
