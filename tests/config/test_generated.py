"""The definitions and docs/configuration.md are what tools/generate_configs.py writes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_definitions_and_their_page_are_up_to_date(tmp_path: Path) -> None:
    generator = ROOT / "tools" / "generate_configs.py"
    page = tmp_path / "configuration.md"
    subprocess.run([sys.executable, generator, "--into", tmp_path, "--docs", page], check=True)
    written = sorted((tmp_path / "definitions").glob("*.py"))
    subprocess.run(
        [sys.executable, "-m", "ruff", "format", "--quiet", "--isolated", "--line-length=120", *written], check=True
    )
    here = ROOT / "src" / "cordwood" / "config" / "definitions"
    assert [path.name for path in written] == sorted(path.name for path in here.glob("*.py"))
    for path in written:
        assert path.read_text() == (here / path.name).read_text(), "run: python tools/generate_configs.py"
    assert page.read_text() == (ROOT / "docs" / "configuration.md").read_text(), "run: python tools/generate_configs.py"
