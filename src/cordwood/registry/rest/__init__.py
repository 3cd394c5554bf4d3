"""The REST API: Confluent's routes, bodies, codes and content types."""
