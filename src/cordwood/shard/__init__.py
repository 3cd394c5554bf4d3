"""The shard runtime: decide, append, replay, answer. The controller and the coordinators are shards."""
