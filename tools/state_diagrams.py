"""Draws the diagrams of states in docs/ from the tables that the code runs on: `python tools/state_diagrams.py`.

A page has its diagram between two comment lines, `<!-- states: NAME -->` and `<!-- end of states -->`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from cordwood.client.consumer.membership.classic_states import TRANSITIONS as CLIENT_CLASSIC_TRANSITIONS
from cordwood.client.consumer.membership.classic_states import State as ClientClassicState
from cordwood.client.consumer.membership.consumer_states import NEXT_STATES, MemberState
from cordwood.client.producer.transactions.states import TRANSITIONS as CLIENT_TRANSACTION_TRANSITIONS
from cordwood.client.producer.transactions.states import State as ClientTransactionState
from cordwood.coordinator.groups.classic.states import TRANSITIONS as CLASSIC_TRANSITIONS
from cordwood.coordinator.groups.classic.states import ClassicState
from cordwood.coordinator.transactions.statuses import TRANSITIONS as TRANSACTION_TRANSITIONS
from cordwood.coordinator.transactions.statuses import TransactionStatus

DOCS = Path(__file__).parent.parent / "docs"
_PLACE = re.compile(r"(<!-- states: (\w+) -->\n).*?(<!-- end of states -->)", re.DOTALL)

# (from, to, by what)
Arrow = tuple[str, str, str]


def transactions() -> list[Arrow]:
    start = [("[*]", TransactionStatus.EMPTY.label, "InitProducerId")]
    end = [(TransactionStatus.DEAD.label, "[*]", "")]
    arrows = [
        (before.label, after.label, why)
        for before, ways in TRANSACTION_TRANSITIONS.items()
        for after, why in ways.items()
    ]
    return start + arrows + end


def classic_groups() -> list[Arrow]:
    start = [("[*]", ClassicState.EMPTY.value, "a JoinGroup, or offsets")]
    end = [(ClassicState.DEAD.value, "[*]", "")]
    return (
        start
        + [(before.value, after.value, event.value) for (before, event), after in CLASSIC_TRANSITIONS.items()]
        + end
    )


def client_transactions() -> list[Arrow]:
    start = [("[*]", ClientTransactionState.UNINITIALIZED.value, "")]
    end = [(ClientTransactionState.FATAL_ERROR.value, "[*]", "")]
    arrows = [
        (before.value, after.value, why)
        for before, ways in CLIENT_TRANSACTION_TRANSITIONS.items()
        for after, why in ways.items()
    ]
    return start + arrows + end


def client_classic_members() -> list[Arrow]:
    start = [("[*]", ClientClassicState.OUT.value, "")]
    return start + [(before.value, after.value, move.value) for (before, move), after in _CLASSIC_MOVES]


def client_consumer_members() -> list[Arrow]:
    start = [("[*]", MemberState.UNSUBSCRIBED.value, "")]
    return start + [
        (before.value, after.value, why) for before, ways in NEXT_STATES.items() for after, why in ways.items()
    ]


# A removed member gets no news from another removal.
_CLASSIC_MOVES = [(key, after) for key, after in CLIENT_CLASSIC_TRANSITIONS.items() if key[0] is not after]

DIAGRAMS: dict[str, Callable[[], Iterable[Arrow]]] = {
    "transactions": transactions,
    "classic_groups": classic_groups,
    "client_transactions": client_transactions,
    "client_classic_members": client_classic_members,
    "client_consumer_members": client_consumer_members,
}


def drawn(page: str) -> str:
    """The page with its diagrams as they should be."""
    return _PLACE.sub(lambda found: f"{found[1]}{_mermaid(DIAGRAMS[found[2]]())}{found[3]}", page)


def _mermaid(arrows: Iterable[Arrow]) -> str:
    lines = [f"    {before} --> {after}" + (f": {why}" if why else "") for before, after, why in arrows]
    return "\n".join(["```mermaid", "stateDiagram-v2", *lines, "```", ""])


def pages() -> list[Path]:
    return [path for path in sorted(DOCS.glob("*.md")) if _PLACE.search(path.read_text())]


def main() -> None:
    for path in pages():
        path.write_text(drawn(path.read_text()))
        print(f"drew {path.name}")


if __name__ == "__main__":
    main()
