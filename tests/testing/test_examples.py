"""The examples run."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("exactly_once.py", "committed: 5,000 bills for 5,000 orders"),
        ("log.py", "after a clean stop: 200,000 records"),
    ],
)
def test_an_example_runs(script: str, said: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, EXAMPLES / script, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
