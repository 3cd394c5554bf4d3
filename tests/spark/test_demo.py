"""`make demo`, with fewer orders."""

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parent.parent.parent / "examples" / "demo.py"


def test_the_demo_counts_every_order_once_though_its_pipeline_and_a_broker_are_killed(tmp_path: Path) -> None:
    # Those of an hour and some minutes: what takes the time is Spark, which is started twice.
    command = [sys.executable, str(DEMO), str(tmp_path), "--orders", "40000"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "  killed\n" in done.stdout
    assert "Without a default the registry refuses it: The field 'channel'" in done.stdout
    assert "With a default it is version 2." in done.stdout
    assert "  the broker is killed\n" in done.stdout
    assert "Every order was counted once." in done.stdout
