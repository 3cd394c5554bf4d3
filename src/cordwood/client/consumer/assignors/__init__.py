"""The assignors of the classic protocol, which the leader of a group runs; the results are those of Kafka's own."""
