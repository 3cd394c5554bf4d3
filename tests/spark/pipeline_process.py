"""The first pipeline that `cordwood pipeline init` writes, run as people run it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

PATIENCE_S = 300.0
ATTEMPTS = 5


def write_first_pipeline(folder: Path, environment: dict[str, str], python: str = sys.executable) -> None:
    init = [python, "-m", "cordwood", "pipeline", "init", "first.py"]
    subprocess.run(init, cwd=folder, env=environment, check=True, capture_output=True)


def run_until_sales(folder: Path, environment: dict[str, str], python: str = sys.executable) -> tuple[int, str]:
    """Interrupts the first pipeline when its second query has read something; the exit code, and what was said."""
    code, said = 0, ""
    for _ in range(ATTEMPTS):
        code, said = _run(folder, environment, python)
        # Spark gives Python ten seconds to start, and a busy machine may need more.
        if "failed to connect back" not in said:
            break
    return code, said


def _run(folder: Path, environment: dict[str, str], python: str) -> tuple[int, str]:
    said = ""
    run = [python, "-m", "cordwood", "pipeline", "run", "first.py"]
    with subprocess.Popen(
        run, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                said += line
                if line.startswith("sales: running") and ", 0 rows in" not in line:
                    # A terminal signals all processes of the group.
                    os.killpg(process.pid, signal.SIGINT)
                    break
            said += process.stderr.read()
            return process.wait(PATIENCE_S), said
        finally:
            process.kill()
