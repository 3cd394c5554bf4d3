"""The producer: records gather in batches per partition, batches go to their leaders, each record is completed once."""
