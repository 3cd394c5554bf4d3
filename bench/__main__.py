"""Runs every benchmark (or the named ones), prints the machine first, and records the figures in bench/history."""

import platform
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from bench.history.__main__ import main as write_page
from bench.history.runs import Run
from cordwood import __version__
from cordwood.wire.records import COMPILED

# Benchmarks that parse the rest of the command line themselves.
WITH_OPTIONS = (
    "clients",
    "cluster_metadata",
    "cluster_start",
    "command_line",
    "coordinator_failover",
    "decisions",
    "faults",
    "node",
    "spark",
    "transactions",
)


def main() -> None:
    names = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    wanted = sys.argv[1:] or names
    if wanted[0] in WITH_OPTIONS:
        run_all({wanted[0]: wanted[1:]})
        return
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(names)}")
    run_all({name: [] for name in wanted})


def run_all(arguments_by_name: Mapping[str, list[str]]) -> None:
    print(f"{software()}\n{machine()}")
    run = Run(software(), machine())
    for name, arguments in arguments_by_name.items():
        print(f"\n# {name}", flush=True)
        with run.recording(name):
            main = import_module(f"bench.{name}").main
            main(arguments) if name in WITH_OPTIONS else main()
    write_page()


def software() -> str:
    records = "compiled" if COMPILED else "in pure Python"
    system = f"{platform.system()} {platform.release()}"
    return f"cordwood {__version__}, records {records}; Python {platform.python_version()}, {system}"


def machine() -> str:
    cpus = _field("/proc/cpuinfo", "processor")
    model = _field("/proc/cpuinfo", "model name")
    memory = _field("/proc/meminfo", "MemTotal")
    return f"{len(cpus)} cores, {model[0] if model else platform.machine()}, {memory[0] if memory else '?'} of memory"


def _field(path: str, name: str) -> list[str]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name]


if __name__ == "__main__":
    main()
