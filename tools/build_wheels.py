"""Builds a compiled and a pure wheel, and tests each in an empty virtual environment.

python tools/build_wheels.py [--dist DIR]

The smoke test installs the wheel with its dependencies, but without Cython, starts a node, and writes and reads a
record.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent

SMOKE_TEST = """
import importlib.util
import sys

import cordwood
import cordwood.testing
from cordwood.wire.records import COMPILED

assert importlib.util.find_spec("cython") is None, "Cython is installed, so this test proves nothing"
assert COMPILED == (sys.argv[1] == "compiled"), f"COMPILED is {COMPILED} in the {sys.argv[1]} wheel"
with cordwood.testing.node() as node:
    topic = node.topic("orders")
    with cordwood.Producer(bootstrap_servers=node.bootstrap) as producer:
        producer.send(topic, "two candles", key="customer-1")
    with cordwood.Consumer(topic, bootstrap_servers=node.bootstrap, group_id="g", auto_offset_reset="earliest") as it:
        record = next(iter(it))
assert (record.key, record.value) == (b"customer-1", b"two candles"), record
print(f"{sys.argv[1]}: cordwood {cordwood.__version__} wrote and read a record")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where the wheels go (default: dist)")
    dist: Path = parser.parse_args().dist
    for kind in ("compiled", "pure"):
        wheel = build(kind, dist)
        smoke_test(kind, wheel)
        print(wheel)


def build(kind: str, dist: Path) -> Path:
    """Builds with the tools of this environment, whose versions are pinned, from a copy of the sources."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "cordwood")
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c", "*.egg-info")
        shutil.copytree(ROOT / "src", copy / "src", ignore=ignored)
        for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        built = Path(folder, "dist")
        pip(
            sys.executable,
            "wheel",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            str(built),
            str(copy),
            pure=kind == "pure",
        )
        (found,) = built.glob("*.whl")
        is_pure = found.name.endswith("-none-any.whl")
        if is_pure != (kind == "pure"):
            sys.exit(f"{found.name} is not a {kind} wheel; a compiled one needs a C compiler")
        dist.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(found, dist / found.name))


def smoke_test(kind: str, wheel: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder, "bin", "python"))
        pip(python, "install", "-c", str(ROOT / "constraints.txt"), str(wheel))
        # Isolated, and in another directory: nothing of this checkout may be imported.
        subprocess.run([python, "-I", "-c", SMOKE_TEST, kind], cwd=folder, check=True)
        subprocess.run([str(Path(folder, "bin", "cordwood")), "--version"], cwd=folder, check=True)


def pip(python: str, *arguments: str, pure: bool = False) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CORDWOOD_PURE")}
    if pure:
        environment["CORDWOOD_PURE"] = "1"
    command = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    subprocess.run(command, env=environment, check=True)


if __name__ == "__main__":
    main()
