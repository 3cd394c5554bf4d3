"""The rules of packaging and tooling that CONTRIBUTING.md promises."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_has_one_source() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "cordwood.__version__"}


def test_cython_is_needed_to_build_only() -> None:
    extras = PROJECT["project"]["optional-dependencies"].values()
    needed = [*PROJECT["project"]["dependencies"], *(each for extra in extras for each in extra)]
    assert [each for each in needed if "cython" in each.lower()] == []
    assert any(each.startswith("cython") for each in PROJECT["build-system"]["requires"])


def test_pre_commit_runs_the_tools_of_make_lint() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    target = re.search(r"^lint:.*\n((?:\t.+\n)+)", makefile, re.MULTILINE)
    assert target is not None
    linted = {re.sub(r" (\.|--verbose)(?= |$)", "", line) for line in re.findall(r"\$\(BIN\)/(.+)", target[1])}
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    hooked = {line.replace(" --force-exclude", "") for line in re.findall(r"entry: \.venv/bin/(.+)", hooks)}
    assert hooked == linted


def test_the_readme_fits_on_two_screens() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
