"""Reports of Spark's processes: the folders that killed processes leave."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cordwood.spark.reports import listening, report

_KILLED = """
import os, signal
from cordwood.spark.reports import VARIABLE, listening
with listening(lambda report: None):
    print(os.environ[VARIABLE], flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_folder_of_a_killed_process_is_swept_and_that_of_a_living_one_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    killed = subprocess.run([sys.executable, "-c", _KILLED], capture_output=True, text=True, check=False).stdout
    left = Path(killed.strip()).parent
    assert left.parent == tmp_path
    assert left.exists()
    # The folder of a process that has not bound its socket yet.
    starting = tmp_path / "cordwood-reports-starting"
    starting.mkdir()
    heard: list[object] = []
    with listening(heard.append):
        assert not left.exists()
        with listening(lambda _report: None):
            pass
        report("written", rows=1)
    assert heard == [{"kind": "written", "rows": 1}]
    assert starting.exists()
    assert list(tmp_path.iterdir()) == [starting]
