"""Errors of the schemas topic."""

from __future__ import annotations


class UnusableTopic(Exception):
    """The schemas topic would lose schemas, or does not keep them in order; the text says how to repair it."""


class TopicReplaced(Exception):
    """The topic was deleted and created again while a registry used it. Nothing may be written: ids and versions of the
    old topic's schemas would be mixed with those of the new one's."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"Topic {topic} was deleted and created again. This registry serves the schemas that it has read, and "
            "writes none. Save them with cordwood schema export, restart the registry, and bring them back with "
            "cordwood schema import"
        )
