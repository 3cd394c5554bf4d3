"""What the README shows works as it stands there."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from round_trip import produce

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
    assert said[0] == "b'a box of matches'\n"


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_the_commands_of_kcat_run(node: ProcessNode) -> None:
    (commands,) = [block for block in blocks("sh") if "kcat" in block]
    of_kcat = "\n".join(line for line in commands.splitlines() if "kcat" in line)
    done = subprocess.run(
        ["bash", "-e", "-c", of_kcat.replace(DEFAULT_ADDRESS, node.bootstrap)], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "two candles\n"), done.stderr


def test_the_commands_of_cordwood_run(node: ProcessNode) -> None:
    produce(node.bootstrap, "orders", b"two candles")
    (commands,) = [block for block in blocks("sh") if "kcat" in block]
    said = ""
    for line in commands.splitlines():
        if line.startswith(".venv/bin/cordwood"):
            arguments = line.split("#")[0].split()[1:]
            command = [sys.executable, "-m", "cordwood", *arguments, "--bootstrap", node.bootstrap]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            said += done.stdout
    assert said == "orders\ntwo candles\n"


def test_every_page_that_it_names_is_there() -> None:
    pages = re.findall(r"\]\(([^):]+)\)", README)
    assert pages
    assert [page for page in pages if not (ROOT / page).exists()] == []
