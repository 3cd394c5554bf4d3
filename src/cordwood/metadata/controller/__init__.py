"""The controller's decisions: `decide(image, request) -> records and a response`, nothing else.

The caller appends the records to the metadata log, replays them, and answers when they are committed. A decision is
taken on an image that holds every record appended so far, committed or not.
"""
