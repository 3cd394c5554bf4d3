"""The examples of docs/client.md run as they stand there."""

import asyncio
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import cordwood
import cordwood.testing

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
# Endless examples, and examples that need missing files, are not run.
EXAMPLES = [
    example
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    if "…" not in example and not re.search(r"^for .*:\s+\.\.\.", example, re.MULTILINE)
]


class Enough(Exception):
    """A record was printed: the example has shown what it shows."""


def enough(*printed: Any) -> None:
    raise Enough


@pytest.fixture(scope="module")
def names() -> Iterator[dict[str, Any]]:
    """Names that the examples assume; closes what they create."""
    pa = pytest.importorskip("pyarrow")
    made: list[Any] = []

    def kept(kind: Any) -> Any:
        def make(*arguments: Any, **keywords: Any) -> Any:
            made.append(kind(*arguments, **keywords))
            return made[-1]

        return make

    with cordwood.testing.node() as node:
        names = {
            "Producer": kept(cordwood.Producer),
            "Consumer": kept(cordwood.Consumer),
            "producer": kept(cordwood.Producer)(bootstrap_servers=node.bootstrap),
            "consumer": kept(cordwood.Consumer)(bootstrap_servers=node.bootstrap, group_id="docs"),
            "table": pa.table({"customer": ["a", "b"], "payload": ["1", "2"]}),
            "print": enough,
            "bootstrap": node.bootstrap,
        }
        yield names
        for client in made:
            client.close()


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_an_example_runs(example: str, names: dict[str, Any]) -> None:
    code = example.replace("localhost:9092", names["bootstrap"])
    if "async with" in code:
        code = "async def main():\n" + textwrap.indent(code, "    ")
    space = dict(names)
    try:
        exec(code, space)
        if inspect.iscoroutinefunction(space.get("main")):
            asyncio.run(space["main"]())
    except Enough:
        pass


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 5
