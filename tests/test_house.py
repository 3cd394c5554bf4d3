"""The rules of the house are kept by import-linter (pyproject.toml); this is what keeps the rules themselves whole."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Where time, sockets, randomness and descriptors may be touched: the ports themselves, and the shells that hand them to
# a node (or, in the simulator, stand in for them). Spark's processes are such shells.
FREE_ROOMS = {"runtime", "cli", "local", "testing", "sim", "spark"}
FORBIDDEN_EVERYWHERE = {"time", "socket", "random", "os", "io", "pathlib", "mmap", "fcntl", "threading"}


@pytest.fixture(scope="module")
def port_rules() -> dict[str, set[str]]:
    """For each room, what it must not import of Python's own modules."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rules: dict[str, set[str]] = {}
    for contract in contracts:
        if contract["type"] == "forbidden" and "time" in contract["forbidden_modules"]:
            for module in contract["source_modules"]:
                rules[module.removeprefix("cordwood.")] = set(contract["forbidden_modules"])
    return rules


def test_every_room_but_the_shells_is_kept_from_time_sockets_randomness_and_descriptors(
    port_rules: dict[str, set[str]],
) -> None:
    rooms = {path.parent.name for path in (ROOT / "src/cordwood").glob("*/__init__.py")}
    assert port_rules.keys() == rooms - FREE_ROOMS | {"node"}
    assert all(forbidden >= FORBIDDEN_EVERYWHERE for forbidden in port_rules.values())


def test_every_module_that_the_architecture_names_is_there() -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    modules = {str(path.relative_to(ROOT / "src/cordwood")) for path in (ROOT / "src/cordwood").rglob("*.py")}
    named = set(re.findall(r"[\w/]+\.py", page))
    assert named
    assert {name for name in named if not any(f"/{module}".endswith(f"/{name}") for module in modules)} == set()
