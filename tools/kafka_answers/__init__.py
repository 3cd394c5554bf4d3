"""Questions to a broker, and what Apache Kafka answered to them: the same conversation is held with Cordwood."""
