"""In the end topics, their partitions and configurations are as they were last set, after any crash."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History

from .violation import Violation


def what_was_set_stays_set(history: History) -> Iterator[Violation]:
    for name, value in history.settings.known.items():
        found = history.found_settings.get(name)
        if found is not None and found != value:
            yield Violation("settings persist", f"{name} is {found}, and was {value}")
