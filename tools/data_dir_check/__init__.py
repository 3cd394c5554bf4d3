"""Opens a data directory of Kafka's with our log and compares everything that a description of it states."""
