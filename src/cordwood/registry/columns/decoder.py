"""**ColumnDecoder**: decodes values with schema ids to an array and a list of bad rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from cordwood.registry.schemas.schema import InvalidSchema, Schema
from cordwood.registry.serializers.framing import KEY_HEADER, VALUE_HEADER, BadFrame, split_header
from cordwood.wire.arrow import binary_input
from cordwood.wire.column_input import BinaryInput

from .arrays import array_of
from .plans import Plan
from .steps import FailStep, Step, framed, run_all


class UnknownSchema(Exception):
    """The registry has no such schema; the text says so."""


class BadRecord(NamedTuple):
    """A value that could not be decoded."""

    row: int
    reason: str


class Decoded(NamedTuple):
    values: pa.Array
    """The array has the length of the input; null where the input was null or could not be decoded."""
    bad: Sequence[BadRecord]


class ColumnDecoder:
    """Not thread-safe: its column grows while it decodes."""

    def __init__(self, plan: Plan, by_id: Callable[[int], Schema], by_guid: Callable[[str], Schema]) -> None:
        """The functions raise `UnknownSchema` or `InvalidSchema` for a missing schema: then its records are bad.
        `decode` raises their other errors."""
        self.plan = plan
        self._by_id = by_id
        self._by_guid = by_guid
        self._steps: dict[int, Step] = {}
        self._named_steps: dict[bytes, Step] = {}

    def decode(self, values: pa.Array, headers: pa.Array | None = None, *, is_key: bool = False) -> Decoded:
        """`values` are binary; `headers`, of a list of keys and values each, may name the schemas instead."""
        given, content = binary_input(values), _content(values)
        for id_ in framed(given, content) - self._steps.keys():
            self._steps[id_] = self._step(lambda id_=id_: self.plan.steps(self._by_id(id_)))  # type: ignore[misc]
        rows, steps = self._named(headers, given, is_key)
        bad = run_all(self.plan.column, given, content, self._steps, rows, steps)
        return Decoded(array_of(self.plan.column, self.plan.type.type), [BadRecord(*each) for each in bad])

    def _named(self, headers: pa.Array | None, values: BinaryInput, is_key: bool) -> tuple[Any, list[Step]]:
        """Returns for each row the index of its step, or -1; None if no row has the header."""
        if headers is None or not len(headers.values):
            return None, []
        keys, contents = headers.flatten().flatten()
        found = pc.indices_nonzero(pc.equal(keys, KEY_HEADER if is_key else VALUE_HEADER))
        if not len(found):
            return None, []
        rows = pc.list_parent_indices(headers).take(found).to_pylist()
        names = contents.take(found).dictionary_encode()
        distinct = names.dictionary.to_pylist()
        for name in distinct:
            if name is not None and name not in self._named_steps:
                self._named_steps[name] = self._step(lambda name=name: self._step_named(name))  # type: ignore[misc]
        steps = [self._named_steps[name] for name in distinct]
        places = [-1] * values.length
        # The first such header of a record counts.
        for row, place in zip(reversed(rows), reversed(names.indices.to_pylist()), strict=True):
            places[row] = -1 if place is None else place
        return pa.array(places, pa.int32()).buffers()[1], steps

    def _step_named(self, name: bytes) -> Step:
        guid, rest = split_header(name)
        return self.plan.bare_steps(self._by_guid(guid), rest)

    def _step(self, make: Callable[[], Step]) -> Step:
        try:
            return make()
        except (UnknownSchema, InvalidSchema, BadFrame) as error:
            return FailStep(str(error))


def _content(values: pa.Array) -> Any:
    content = values.buffers()[2]
    return b"" if content is None else memoryview(content).cast("B")
