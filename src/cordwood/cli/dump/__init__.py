"""What `cordwood log dump` shows: any file of a log directory as a stream of plain dictionaries with Kafka's names.

Every module reads in bounded pieces and changes nothing.
"""
