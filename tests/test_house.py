"""The rules of the house are kept by import-linter (pyproject.toml); this is what keeps the rules themselves whole."""

import ast
import re
import tomllib
from collections.abc import Container, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Where time, sockets, randomness and descriptors may be touched: the ports themselves, and the shells that hand them to
# a node (or, in the simulator, stand in for them). Spark's processes are such shells.
FREE_ROOMS = {"runtime", "cli", "local", "testing", "sim", "spark"}
FORBIDDEN_EVERYWHERE = {"time", "socket", "random", "os", "io", "pathlib", "mmap", "fcntl", "threading"}

# Their modules form no circles.
WITHOUT_CIRCLES = {
    "broker",
    "controller",
    "coordinator",
    "local",
    "log",
    "net",
    "quorum",
    "raft",
    "registry",
    "replica",
    "runtime",
    "shard",
}


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


def test_every_module_named_in_the_architecture_exists() -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    modules = {str(path.relative_to(ROOT / "src/cordwood")) for path in (ROOT / "src/cordwood").rglob("*.py")}
    named = set(re.findall(r"[\w/]+\.py", page))
    assert named
    assert {name for name in named if not any(f"/{module}".endswith(f"/{name}") for module in modules)} == set()


def test_no_modules_of_a_package_import_each_other_in_a_circle() -> None:
    """Imports for type checkers count: a reader has to follow them as well."""
    imports = {
        module: {imported for imported in found if _package(imported) == _package(module)}
        for module, found in _imports().items()
        if _package(module) in WITHOUT_CIRCLES
    }
    assert imports
    # A module that imports none of those left, or that none of them imports, is in no circle.
    while outer := {
        module
        for module, found in imports.items()
        if not found & imports.keys() or not any(module in others for others in imports.values())
    }:
        imports = {module: found for module, found in imports.items() if module not in outer}
    assert not imports


def _package(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _imports() -> dict[str, set[str]]:
    """The modules of the project that each one imports."""
    paths = {}
    for path in (ROOT / "src/cordwood").rglob("*.py"):
        parts = path.relative_to(ROOT / "src").with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {module: set(_imported(module, path, paths)) - {module} for module, path in paths.items()}


def _imported(module: str, path: Path, modules: Container[str]) -> Iterator[str]:
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                if name in modules or base in modules:
                    yield name if name in modules else base
