"""Runs every benchmark (or those named) after saying what machine this is."""

import platform
import sys
from importlib import import_module
from pathlib import Path

from cordwood import __version__
from cordwood.wire.records import COMPILED

# These take the rest of the command line themselves.
WITH_OPTIONS = ("clients", "command_line", "node", "spark", "transactions")


def main() -> None:
    names = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    wanted = sys.argv[1:] or names
    if wanted[0] in WITH_OPTIONS:
        print(machine())
        import_module(f"bench.{wanted[0]}").main(wanted[1:])
        return
    unknown = [name for name in wanted if name not in names]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(names)}")
    print(machine())
    for name in wanted:
        print(f"\n# {name}", flush=True)
        import_module(f"bench.{name}").main()


def machine() -> str:
    cpus = _field("/proc/cpuinfo", "processor")
    model = _field("/proc/cpuinfo", "model name")
    memory = _field("/proc/meminfo", "MemTotal")
    return (
        f"cordwood {__version__}, records {'compiled' if COMPILED else 'in pure Python'}; "
        f"Python {platform.python_version()}, {platform.system()} {platform.release()}\n"
        f"{len(cpus)} cores, {model[0] if model else platform.machine()}, {memory[0] if memory else '?'} of memory"
    )


def _field(path: str, name: str) -> list[str]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return []
    return [line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name]


if __name__ == "__main__":
    main()
