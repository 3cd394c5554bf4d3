"""`cordwood --version` and `--help`: quick, and without what only other commands need."""

import subprocess
import sys

from cordwood import __version__
from cordwood.wire.records import COMPILED


def cordwood(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "cordwood", *arguments], capture_output=True, text=True, check=False)


def test_the_version_says_whether_records_are_compiled() -> None:
    done = cordwood("--version")
    how = "compiled" if COMPILED else "pure Python"
    assert (done.returncode, done.stdout) == (0, f"cordwood {__version__} (records: {how})\n")


def test_help_names_the_commands() -> None:
    done = cordwood("--help")
    assert done.returncode == 0
    assert "log" in done.stdout
    assert "--version" in done.stdout
    assert "dump" in cordwood("log", "--help").stdout


def test_the_help_of_dump_names_its_options_and_exit_codes() -> None:
    text = cordwood("log", "dump", "--help").stdout
    for option in ("--json", "--indexes", "--verify", "--no-records", "--from", "--limit", "--quiet", "Exit codes"):
        assert option in text


def test_an_unknown_command_is_an_error() -> None:
    assert cordwood("logs").returncode == 2


def test_the_version_does_not_import_the_log_or_the_messages() -> None:
    code = (
        "import sys\n"
        "from cordwood.cli.commands import app\n"
        "app(['--version'], standalone_mode=False)\n"
        "print(sorted(name for name in sys.modules if name.startswith(('cordwood.log', 'cordwood.wire.messages'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
