"""Docstrings start with a verb or a noun (docs in CONTRIBUTING.md)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
_QUESTION = re.compile(r"(What|Who|Whom|Whose|Whether|How)\b")


@pytest.mark.parametrize("folder", ["src", "tests", "bench", "tools"])
def test_no_docstring_opens_with_a_question(folder: str) -> None:
    assert [
        f"{path.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in _docstrings(path)
        if _QUESTION.match(text.strip())
    ] == []


def _docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Also those below attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for statement in node.body:
                if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                    text = statement.value.value
                    if isinstance(text, str):
                        yield statement.lineno, text
