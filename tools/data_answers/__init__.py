"""Edge cases of the APIs that move data, and what Apache Kafka answered: the same is asked of Cordwood.

A scenario is a coroutine that talks to a broker. `asking` keeps the answers, with what differs from one broker to the
next replaced by a name. `tools/record_data_answers.py` keeps Kafka's.
"""
