"""A topic that a client has seen exists in the end, after any crash: metadata is always flushed."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def topics_stay(history: History) -> Iterator[Violation]:
    for name, topic_id in history.topics.items():
        found = history.final_topics.get(name)
        if found != topic_id:
            yield Violation("a topic that is there stays", f"{name} has id {topic_id}, and in the end {found}")
