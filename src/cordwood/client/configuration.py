"""Settings as people give them: Kafka's names in Python's spelling, or a mapping with Kafka's dotted names.

>>> read_settings(ProducerSettings, {"linger.ms": 20}, {"acks": "all"})

An unknown name is an error that names the nearest known one; so is a value of the wrong type or out of range.
"""
