"""Acknowledged administrative changes persist: every broker knows them at the end."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.histories.quorum import FinalMetadata, Wish, WishOutcome

from .violation import Violation


def decisions_are_kept(history: History) -> Iterator[Violation]:
    quorum = history.quorum
    wanted: dict[tuple[str, str | None], list[Wish]] = {}
    for wish in quorum.wishes:
        wanted.setdefault((wish.topic, wish.setting), []).append(wish)
    for final in quorum.final:
        for wishes in wanted.values():
            yield from _judge(wishes, final)
    for one, other in zip(quorum.final, quorum.final[1:], strict=False):
        if one.topics != other.topics or one.settings != other.settings:
            yield Violation(
                "decisions are kept",
                f"when all is over node {one.node_id} and node {other.node_id} differ: "
                f"{sorted(one.topics.items() ^ other.topics.items())}, "
                f"{sorted(one.settings.items() ^ other.settings.items())}",
            )


def _judge(wishes: list[Wish], final: FinalMetadata) -> Iterator[Violation]:
    """Decisions of one administrator about one thing, one at a time: the last acknowledged one, or a later one without
    an answer, must be in effect."""
    done = [wish for wish in wishes if wish.outcome is WishOutcome.DONE]
    if not done:
        return
    last = done[-1]
    later = [wish for wish in wishes if wish.number > last.number and wish.outcome is WishOutcome.UNKNOWN]
    # An unanswered request may take effect at any time after it was sent, also after later ones.
    earlier = [wish for wish in wishes if wish.number < last.number and wish.outcome is WishOutcome.UNKNOWN]
    found = final.topics.get(last.topic) if last.setting is None else final.settings.get((last.topic, last.setting))
    possible = [last, *later, *earlier]
    if last.setting is None:
        if found is None and all(wish.value is not None for wish in possible):
            yield Violation("decisions are kept", f"node {final.node_id} does not know the topic of {last}")
        elif found is not None and not earlier and not later and last.topic_id not in ("", found):
            yield Violation("decisions are kept", f"node {final.node_id} has another topic than that of {last}")
    elif last.topic in final.topics and found not in [wish.value for wish in possible]:
        yield Violation("decisions are kept", f"node {final.node_id} has {found!r}, after {last}")
