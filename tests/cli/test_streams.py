"""Standard streams that are closed or full: a clean error and the right exit code, never a crash or a traceback."""

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.cli_runner import PATIENCE_S, Cli, run_here, until

COMMAND = shlex.join([sys.executable, "-m", "cordwood"])
FULL = "cordwood: cannot write to standard output: No space left on device\n"
CLOSED = "cordwood: cannot write to standard output: it is closed\n"


def redirected(
    cli: Cli, arguments: Sequence[str], redirection: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", "-c", f"{COMMAND} {shlex.join(arguments)} {redirection}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=os.environ | {"CORDWOOD_BOOTSTRAP": cli.bootstrap} | environment,
    )


@pytest.mark.parametrize(
    "arguments",
    [["topic", "list", "--internal"], ["consume", "{topic}"], ["cluster", "--json"], ["--help"], ["--version"]],
    ids=" ".join,
)
def test_a_command_that_prints_fails_cleanly_when_it_cannot(cli: Cli, topic: str, arguments: list[str]) -> None:
    cli("produce", topic, "--create", stdin=b"x\n")
    arguments = [word.format(topic=topic) for word in arguments]
    expected = {
        "<&-": (0, ""),
        "2>&-": (0, ""),
        "2>/dev/full": (0, ""),
        ">&-": (1, CLOSED),
        ">/dev/full": (1, FULL),
        "<&- >&- 2>&-": (1, ""),
        "> >(true)": (0, ""),
    }
    ended = {redirection: redirected(cli, arguments, redirection) for redirection in expected}
    assert {redirection: (done.returncode, done.stderr) for redirection, done in ended.items()} == expected


def test_the_exit_code_of_an_error_does_not_depend_on_the_error_stream(cli: Cli, topic: str) -> None:
    for redirection in ("2>&-", "2>/dev/full"):
        assert redirected(cli, ["topic", "describe", topic], redirection).returncode == 1
        assert redirected(cli, ["topic", "describe", "--no-such-option"], redirection).returncode == 2
        assert redirected(cli, ["up", "--set", "no.such.key=1"], redirection).returncode == 2


def test_a_closed_input_is_not_an_empty_input(cli: Cli, topic: str) -> None:
    done = redirected(cli, ["produce", topic, "--create"], "<&-")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "cordwood: cannot read the input: Bad file descriptor")


def test_records_that_could_not_be_printed_are_not_committed(cli: Cli, topic: str) -> None:
    cli("produce", topic, "--create", stdin=b"x\n")
    assert redirected(cli, ["consume", topic, "--group", topic], ">/dev/full").stderr == FULL
    assert cli("consume", topic, "--group", topic).lines == ["x"]


def test_text_that_the_terminal_cannot_show_is_escaped(cli: Cli, topic: str) -> None:
    group = f"{topic}-ä"
    cli("produce", topic, "--create", stdin=b"x\n")
    cli("consume", topic, "--group", group)
    done = redirected(cli, ["group", "list", group], "", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout.split("\t")[0]) == (0, f"{topic}-\\xe4")


@pytest.mark.parametrize(
    ("redirection", "exit_code", "told"), [(">/dev/full", 1, FULL), (">/dev/full 2>/dev/full", 1, "")]
)
def test_a_node_that_cannot_say_it_is_ready_ends_and_removes_its_temporary_data(
    cli: Cli, tmp_path: Path, redirection: str, exit_code: int, told: str
) -> None:
    done = redirected(cli, ["up", "--ephemeral", "--port", "0"], redirection, TMPDIR=str(tmp_path))
    assert (done.returncode, done.stderr) == (exit_code, told)
    assert list(tmp_path.iterdir()) == []


@contextmanager
def node_with(redirection: str, folder: Path) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    up = ["up", "--ephemeral", "--port", str(port)]
    with subprocess.Popen(
        ["bash", "-c", f"exec {COMMAND} {shlex.join(up)} {redirection}"],
        stdout=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(folder)},
    ) as node:
        try:
            yield node, f"127.0.0.1:{port}"
        finally:
            node.kill()


@pytest.mark.parametrize("redirection", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_node_runs_without_standard_streams(tmp_path: Path, redirection: str) -> None:
    with node_with(redirection, tmp_path) as (node, bootstrap):
        until(lambda: run_here(["cluster", "--bootstrap", bootstrap, "--timeout", "1"]).code == 0)
        node.terminate()
        assert node.wait(PATIENCE_S) == 0
    assert list(tmp_path.iterdir()) == []
