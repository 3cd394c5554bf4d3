"""A schema has one id in its context, and an id one schema, whichever registry gave it."""

from collections.abc import Iterator

from cordwood.sim.histories.history import History
from cordwood.sim.histories.registry import Registration

from .violation import Violation


def a_schema_has_one_id(history: History) -> Iterator[Violation]:
    by_schema: dict[tuple[str, str], Registration] = {}
    by_id: dict[tuple[str, int], Registration] = {}
    for each in history.registry.registrations:
        first = by_schema.setdefault((each.context, each.schema), each)
        if first.id != each.id:
            yield Violation("a schema has one id", f"{first}; {each}")
        first = by_id.setdefault((each.context, each.id), each)
        if first.schema != each.schema:
            yield Violation("an id has one schema", f"{first}; {each}")
    for each, registry, schema in history.registry.reads:
        if schema is not None and schema != each.schema:
            yield Violation("an id has one schema", f"{registry} has {schema!r}: {each}")
