"""The README's examples run as printed."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import cordwood.testing
from cordwood.testing.process import ProcessNode

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
DEFAULT_ADDRESS = "127.0.0.1:9092"


@pytest.fixture
def node() -> Iterator[ProcessNode]:
    with cordwood.testing.node(subprocess=True) as node:
        yield node


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_python_examples_run(node: ProcessNode, tmp_path: Path) -> None:
    said = []
    for example in blocks("python"):
        command = [sys.executable, "-c", example.replace(DEFAULT_ADDRESS, node.bootstrap)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert said[0] == "b'customer-1' b'a box of matches'\n"


def test_the_commands_run(node: ProcessNode) -> None:
    (commands,) = [block for block in blocks("sh") if "cordwood consume" in block]
    program = f'cordwood() {{ "{sys.executable}" -m cordwood "$@" --bootstrap {node.bootstrap}; }}\n{commands}'
    done = subprocess.run(["bash", "-e", "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "two candles\n"), done.stderr


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 120
