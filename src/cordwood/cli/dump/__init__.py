"""The output of `cordwood log dump`: any file of a log directory as a stream of dictionaries with Kafka's names.

Every module reads in bounded pieces and changes nothing.
"""
