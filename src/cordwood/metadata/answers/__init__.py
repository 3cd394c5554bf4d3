"""Answers that brokers and controllers give alike: handlers of both roles, and what their handlers share."""
